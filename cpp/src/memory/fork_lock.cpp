#include "memory/fork_lock.hpp"

#include <atomic>
#include <stdexcept>

#include "os/os.hpp"

namespace hushvec {
namespace {

std::atomic<std::uint32_t> fork_count{0};
std::atomic<void (*)()> child_action{nullptr};

}  // namespace

// Never destroyed: objects that outlive static destruction still take it.
Mutex& fork_lock() {
    static Mutex& lock = *new Mutex;
    return lock;
}

void set_child_action(void (*action)()) { child_action.store(action); }

void register_fork_handlers() {
    static const bool registered = os::at_fork(
        [] { fork_lock().lock(); },
        [] { fork_lock().unlock(); },
        [] {
            fork_count.fetch_add(1, std::memory_order_relaxed);
            if (void (*const action)() = child_action.load()) action();
            fork_lock().unlock();
        });
    if (!registered) throw std::runtime_error("pthread_atfork failed: a forked child could repeat the key stream");
}

std::uint64_t process_identity() {
    return (std::uint64_t{fork_count.load(std::memory_order_relaxed)} << 32) | os::process_id();
}

}  // namespace hushvec
