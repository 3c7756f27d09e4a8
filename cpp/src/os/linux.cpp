// Linux, with any C library.
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "os/os.hpp"

namespace hushvec::os {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

// An emulator of the system may take all advice and do nothing (qemu-user does): then it also takes what is none.
bool advice_is_heeded(std::uint8_t* data) {
    constexpr int no_advice = 0x7FFFFFFF;
    static const bool heeded = madvise(data, page_size(), no_advice) != 0;
    return heeded;
}

int advise(std::uint8_t* data, std::size_t size, int advice) {
    if (!advice_is_heeded(data)) return not_offered;
    return madvise(data, size, advice) == 0 ? 0 : errno;
}

}  // namespace

// The kernel is asked by name: a C library's getrandom() may keep a state of its own in memory, and a snapshot of the process would put
// that back together with everything else.
void fill_with_random_bytes(void* memory, std::size_t size) {
    auto* bytes = static_cast<std::uint8_t*>(memory);
    std::size_t filled = 0;
    while (filled < size) {
        const long got = syscall(SYS_getrandom, bytes + filled, size - filled, 0u);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw std::runtime_error(std::string("the operating system gave no random key: ") + std::strerror(errno));
        filled += static_cast<std::size_t>(got);
    }
}

int lock_as_touched(std::uint8_t* data, std::size_t size) {
#ifdef MLOCK_ONFAULT
    if (mlock2(data, size, MLOCK_ONFAULT) == 0) return 0;   // no such call before Linux 4.4, and in emulators
#endif
    return lock(data, size);
}

int leave_out_of_dumps(std::uint8_t* data, std::size_t size) { return advise(data, size, MADV_DONTDUMP); }

// Zeros in the child, of clone() too.
int withhold_from_children([[maybe_unused]] std::uint8_t* data, [[maybe_unused]] std::size_t size) {
#ifdef MADV_WIPEONFORK
    return advise(data, size, MADV_WIPEONFORK);
#else
    return not_offered;
#endif
}

void take_over_withheld(std::uint8_t*, std::size_t) {}   // they are zeros already

void* allocate_aligned(std::size_t alignment, std::size_t bytes) {
    const std::size_t aligned = bytes >= kLargePage ? std::max(alignment, kLargePage) : alignment;
    const std::size_t whole = (bytes + aligned - 1) / aligned * aligned;
    void* memory = std::aligned_alloc(aligned, whole);
    if (memory == nullptr) throw std::bad_alloc();
    prefer_large_pages(memory, whole);
    return memory;
}

void prefer_large_pages(void* memory, std::size_t size) {
    auto* begin = static_cast<std::uint8_t*>(memory);
    const std::size_t before = (kLargePage - reinterpret_cast<std::uintptr_t>(begin) % kLargePage) % kLargePage;
    if (size < before + kLargePage) return;
    madvise(begin + before, (size - before) / kLargePage * kLargePage, MADV_HUGEPAGE);
}

bool overwrite_freed_memory([[maybe_unused]] bool on) {
#ifdef M_PERTURB   // glibc's
    constexpr int kFill = 0x55;
    return mallopt(M_PERTURB, on ? kFill : 0) == 1;
#else
    return false;
#endif
}

void move_away(std::thread& thread) {
    cpu_set_t allowed;
    const int here = sched_getcpu();
    if (here < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
    CPU_CLR(static_cast<std::size_t>(here), &allowed);
    pthread_setaffinity_np(thread.native_handle(), sizeof allowed, &allowed);
}

bool has_arm_aes() {
#if defined(__aarch64__)
    return (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
    return false;
#endif
}

}  // namespace hushvec::os
