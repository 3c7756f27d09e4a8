// Memory for secrets: pages that stay in RAM, are left out of core dumps, and are zeros in a forked child and after use.
//
// Each request goes to the operating system on its own, and each may be refused (a limit, an old kernel, a sandbox). A refusal
// leaves usable memory and is recorded: whoever asked decides whether it is enough.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hushvec {

// What to ask for. Everything; less is for tests of what then takes its place.
struct PageRequests {
    bool lock = true;
    bool leave_out_of_dumps = true;
    bool wipe_on_fork = true;
};

// errno of each request, 0 where it was granted.
struct PageRefusals {
    int lock = 0;                 // mlock: not swapped out
    int leave_out_of_dumps = 0;   // MADV_DONTDUMP
    int wipe_on_fork = 0;         // MADV_WIPEONFORK; refused, a handler of fork() writes the zeros
};

// Pages between two that nobody may touch. Zeros at first; zeros again when they go, and when the process exits through exit().
class LockedPages {
public:
    // At least `size` bytes. Throws std::bad_alloc where there is no such memory.
    explicit LockedPages(std::size_t size, PageRequests requests = {});
    ~LockedPages();
    LockedPages(const LockedPages&) = delete;
    LockedPages& operator=(const LockedPages&) = delete;

    std::uint8_t* data() const { return data_; }
    std::size_t size() const { return size_; }
    std::size_t mapped() const { return mapped_; }   // whole pages, the two at the ends not counted
    PageRefusals refusals() const;

    // Zeros, now. What was lost to a fork is given up.
    void scrub();

    // Whether a fork came between the last scrub (or the beginning) and now: the contents are the parent's alone.
    bool wiped_by_fork() const;

private:
    friend class LivePages;

    std::uint8_t* data_;
    std::size_t size_;
    std::size_t mapped_;
    PageRefusals refusals_;
    std::atomic<std::uint64_t> process_;
};

// All pages of this process, those of generator keys among them.
struct MemoryReport {
    std::size_t mappings = 0;
    std::size_t bytes = 0;
    std::size_t locked_bytes = 0;
    std::size_t key_slots = 0;          // in use
    std::size_t key_bytes = 0;          // pages of slots
    std::size_t locked_key_bytes = 0;
    PageRefusals key_refusals;          // of the newest page of slots
};

MemoryReport memory_report();

}  // namespace hushvec
