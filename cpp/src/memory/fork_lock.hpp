// One lock over fork(), and a name for this process.
#pragma once

#include <cstdint>

#include "os/mutex.hpp"

namespace hushvec {

// The lock of everything that a forked child must find whole: the nonces of generators, the slots of keys, the list of live pages.
// Held across fork(), so that a child never inherits it locked by a thread it does not have.
Mutex& fork_lock();

// Called in a forked child while it holds the lock. One action, set before the first fork that matters.
void set_child_action(void (*action)());

// Must have been called before anything relies on the lock. Throws std::runtime_error where the handlers cannot be registered.
void register_fork_handlers();

// Never 0. Counts the forks on the way to this process beside its pid: pids alone can repeat, and clone() skips the handlers.
std::uint64_t process_identity();

}  // namespace hushvec
