#include <cerrno>
#include <cstdint>
#include <limits>
#include <new>

#include "hushvec/locked_memory.hpp"
#include "hushvec/wipe.hpp"
#include "memory/fork_lock.hpp"
#include "memory/live_pages.hpp"
#include "os/os.hpp"

namespace hushvec {
namespace {

std::size_t whole_pages(std::size_t size) {
    if (size == 0 || size > std::numeric_limits<std::size_t>::max() / 4) throw std::bad_alloc();
    return (size + os::page_size() - 1) / os::page_size() * os::page_size();
}

PageRefusals ask_for(std::uint8_t* data, std::size_t mapped, PageRequests requests) {
    return {
        .lock = requests.lock ? os::lock(data, mapped) : ECANCELED,
        .leave_out_of_dumps = requests.leave_out_of_dumps ? os::leave_out_of_dumps(data, mapped) : ECANCELED,
        .wipe_on_fork = requests.wipe_on_fork ? os::withhold_from_children(data, mapped) : ECANCELED,
    };
}

}  // namespace

LockedPages::LockedPages(std::size_t size, PageRequests requests)
    : data_(nullptr), size_(size), mapped_(whole_pages(size)), process_(process_identity()) {
    data_ = os::map_between_guards(mapped_);
    refusals_ = ask_for(data_, mapped_, requests);
    try {
        LivePages::add(this);
    } catch (...) {
        os::unmap_with_guards(data_, mapped_);
        throw;
    }
}

LockedPages::~LockedPages() {
    LivePages::remove(this);
    wipe(data_, mapped_);
    os::unmap_with_guards(data_, mapped_);
}

PageRefusals LockedPages::refusals() const {
    const std::lock_guard<Mutex> lock(fork_lock());
    return refusals_;
}

void LockedPages::scrub() {
    wipe(data_, mapped_);
    process_.store(process_identity());
}

bool LockedPages::wiped_by_fork() const { return process_.load() != process_identity(); }

}  // namespace hushvec
