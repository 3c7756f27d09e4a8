// A lock over what threads of this library share. HUSHVEC_THREADS is 0 where a program has one thread alone, as WebAssembly's: there is
// nothing to lock then, nor a std::mutex to do it.
#pragma once

#include <mutex>

#if !defined(HUSHVEC_THREADS)
#define HUSHVEC_THREADS 1
#endif

namespace hushvec {

#if HUSHVEC_THREADS
using Mutex = std::mutex;
#else
class Mutex {
public:
    void lock() {}
    void unlock() {}
};
#endif

}  // namespace hushvec
