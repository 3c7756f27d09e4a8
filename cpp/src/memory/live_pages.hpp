// The list of all LockedPages of this process: what a fork and an exit have to reach.
#pragma once

#include "hushvec/locked_memory.hpp"

namespace hushvec {

class LivePages {
public:
    static void add(LockedPages* pages);
    static void remove(LockedPages* pages);
    static MemoryReport report();

private:
    static void wipe_all();        // at exit
    static void after_fork();      // in the child
};

}  // namespace hushvec
