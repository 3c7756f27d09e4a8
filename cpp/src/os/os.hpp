// What this library asks of the operating system: everything, and what each answer promises. One file per system has the answers
// (linux.cpp, macos.cpp, windows.cpp, wasm.cpp; posix.cpp is what the first two share). No other file includes a header of a system.
//
// Requests that a system may refuse return 0 where they were granted and a code of errno otherwise; `not_offered` where the system has
// no such call.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"

#if HUSHVEC_THREADS
#include <thread>
#endif

namespace hushvec::os {

inline constexpr int not_offered = ENOSYS;

// Bytes of the system's own generator, straight into the memory given. It is seeded before the first call returns. On Linux and macOS
// its state is the kernel's, and a restored snapshot of this process does not draw the same bytes again; on Windows a part of it lies in
// this process. Throws std::runtime_error.
void fill_with_random_bytes(void* memory, std::size_t size);

// ---- memory

std::size_t page_size();

// `size` bytes, a multiple of page_size(), zeros, that can be read and written, between two pages that cannot. Throws std::bad_alloc.
std::uint8_t* map_between_guards(std::size_t size);
void unmap_with_guards(std::uint8_t* data, std::size_t size) noexcept;

// Pages that were mapped above:
int lock(std::uint8_t* data, std::size_t size);                 // they stay in RAM. A child made by fork() does not inherit it
int lock_as_touched(std::uint8_t* data, std::size_t size);      // the same, for pages of which few may ever be used
int leave_out_of_dumps(std::uint8_t* data, std::size_t size);   // of this process, when it crashes
int withhold_from_children(std::uint8_t* data, std::size_t size);   // made by fork(): granted where there is no fork()

// In a forked child, before anything reads withheld pages: they read as zeros from then on.
void take_over_withheld(std::uint8_t* data, std::size_t size);

// `bytes` aligned to `alignment`, a power of two; large blocks on large pages, where the system has them for the asking. Throws
// std::bad_alloc.
void* allocate_aligned(std::size_t alignment, std::size_t bytes);
void free_aligned(void* memory) noexcept;

// Asks for large pages under all of this memory that could have them, before it is first written. A hint: data stays as it is.
void prefer_large_pages(void* memory, std::size_t size);

// From now on free() overwrites what it frees (`on`), or no longer does. Whether the C library can.
bool overwrite_freed_memory(bool on);

// ---- processes and threads

// Called around every fork() of this process, `in_child` in the child. Not around clone() or posix_spawn(). True too where there is no
// fork() to call them around; false if the system refuses.
bool at_fork(void (*before)(), void (*in_parent)(), void (*in_child)());

std::uint32_t process_id();

#if HUSHVEC_THREADS
// Moves the thread off the processor that this one runs on, where the system lets a program choose: a hint.
void move_away(std::thread& thread);
#endif

// ---- the processor, where only the system can tell

bool has_arm_aes();

}  // namespace hushvec::os
