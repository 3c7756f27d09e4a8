#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

#include "hushvec/locked_memory.hpp"
#include "memory/fork_lock.hpp"
#include "memory/live_pages.hpp"

namespace hushvec {
namespace {

std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

std::size_t whole_pages(std::size_t size) {
    if (size == 0 || size > std::numeric_limits<std::size_t>::max() / 4) throw std::bad_alloc();
    return (size + page_size() - 1) / page_size() * page_size();
}

// `mapped` bytes that can be read and written, between two pages that cannot.
std::uint8_t* map_between_guards(std::size_t mapped) {
    const std::size_t all = mapped + 2 * page_size();
    void* first = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (first == MAP_FAILED) throw std::bad_alloc();
    auto* data = static_cast<std::uint8_t*>(first) + page_size();
    if (mprotect(data, mapped, PROT_READ | PROT_WRITE) != 0) {
        munmap(first, all);
        throw std::bad_alloc();
    }
    return data;
}

void unmap_with_guards(std::uint8_t* data, std::size_t mapped) { munmap(data - page_size(), mapped + 2 * page_size()); }

// An emulator of the system may take all advice and do nothing (qemu-user does): then it also takes what is none.
bool advice_is_heeded(std::uint8_t* data) {
    constexpr int no_advice = 0x7FFFFFFF;
    static const bool heeded = madvise(data, page_size(), no_advice) != 0;
    return heeded;
}

// 0 where it was granted.
int advise(std::uint8_t* data, std::size_t mapped, int advice) {
    if (!advice_is_heeded(data)) return ENOSYS;
    return madvise(data, mapped, advice) == 0 ? 0 : errno;
}

PageRefusals ask_for(std::uint8_t* data, std::size_t mapped, PageRequests requests) {
    PageRefusals refusals;
    refusals.leave_out_of_dumps = requests.leave_out_of_dumps ? advise(data, mapped, MADV_DONTDUMP) : ECANCELED;
#ifdef MADV_WIPEONFORK
    refusals.wipe_on_fork = requests.wipe_on_fork ? advise(data, mapped, MADV_WIPEONFORK) : ECANCELED;
#else
    refusals.wipe_on_fork = requests.wipe_on_fork ? ENOSYS : ECANCELED;
#endif
    if (!requests.lock) {
        refusals.lock = ECANCELED;
    } else if (mlock(data, mapped) != 0) {
        refusals.lock = errno;
    }
    return refusals;
}

}  // namespace

LockedPages::LockedPages(std::size_t size, PageRequests requests)
    : data_(nullptr), size_(size), mapped_(whole_pages(size)), process_(process_identity()) {
    data_ = map_between_guards(mapped_);
    refusals_ = ask_for(data_, mapped_, requests);
    try {
        LivePages::add(this);
    } catch (...) {
        unmap_with_guards(data_, mapped_);
        throw;
    }
}

LockedPages::~LockedPages() {
    LivePages::remove(this);
    explicit_bzero(data_, mapped_);
    unmap_with_guards(data_, mapped_);
}

PageRefusals LockedPages::refusals() const {
    const std::lock_guard<std::mutex> lock(fork_lock());
    return refusals_;
}

void LockedPages::scrub() {
    explicit_bzero(data_, mapped_);
    process_.store(process_identity());
}

bool LockedPages::wiped_by_fork() const { return process_.load() != process_identity(); }

}  // namespace hushvec
