#include "memory/live_pages.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "hushvec/wipe.hpp"
#include "memory/fork_lock.hpp"
#include "os/os.hpp"

namespace hushvec {
namespace {

// Never destroyed: pages that outlive static destruction still leave the list.
std::vector<LockedPages*>& live() {
    static auto& pages = *new std::vector<LockedPages*>;
    return pages;
}

}  // namespace

void LivePages::add(LockedPages* pages) {
    register_fork_handlers();
    // A handler of the C library runs after Python's own teardown, whatever ended the program, and before other libraries' statics go.
    static const int failed = [] {
        set_child_action(&LivePages::after_fork);
        return std::atexit(&LivePages::wipe_all);
    }();
    if (failed != 0) throw std::runtime_error("atexit failed: memory would not be wiped at exit");
    const std::lock_guard<Mutex> lock(fork_lock());
    live().push_back(pages);
}

void LivePages::remove(LockedPages* pages) {
    const std::lock_guard<Mutex> lock(fork_lock());
    live().erase(std::find(live().begin(), live().end(), pages));
}

MemoryReport LivePages::report() {
    const std::lock_guard<Mutex> lock(fork_lock());
    MemoryReport report;
    for (const LockedPages* pages : live()) {
        report.mappings += 1;
        report.bytes += pages->mapped_;
        if (pages->refusals_.lock == 0) report.locked_bytes += pages->mapped_;
    }
    return report;
}

void LivePages::wipe_all() {
    const std::lock_guard<Mutex> lock(fork_lock());
    for (LockedPages* pages : live()) wipe(pages->data_, pages->mapped_);
}

// Locks are not inherited. A child that only calls exec() touches no page, and locks none.
void LivePages::after_fork() {
    for (LockedPages* pages : live()) {
        if (pages->refusals_.wipe_on_fork == 0) {
            os::take_over_withheld(pages->data_, pages->mapped_);
        } else {
            wipe(pages->data_, pages->mapped_);
        }
        if (pages->refusals_.lock == 0) pages->refusals_.lock = os::lock_as_touched(pages->data_, pages->mapped_);
    }
}

}  // namespace hushvec
