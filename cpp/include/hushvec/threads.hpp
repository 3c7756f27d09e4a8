// How many threads large arrays are split over. The result never depends on it.
#pragma once

#include <cstddef>

namespace hushvec {

// 0 means all cores that the machine had when they were first asked for. The environment variable HUSHVEC_NUM_THREADS sets the value at
// first use.
void set_num_threads(std::size_t count);
std::size_t num_threads();

}  // namespace hushvec
