// Splits independent work over threads that live for one call: nothing to keep, nothing that a fork could lose.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

#include "hushvec/threads.hpp"

namespace hushvec {

// Below this many samples a thread costs more than it saves: starting one takes about 30 us, a sample about 1 ns.
inline constexpr std::size_t kSamplesPerThread = std::size_t{1} << 17;

// Calls work(begin, end) on disjoint ranges that cover [0, count); `samples_each` is the work in one item.
// work must not throw.
template <class Work>
void parallel_for(std::size_t count, std::size_t samples_each, Work work) {
    const std::size_t useful = std::max<std::size_t>(1, count * std::max<std::size_t>(1, samples_each) / kSamplesPerThread);
    const std::size_t threads = std::min({num_threads(), useful, std::max<std::size_t>(1, count)});
    const auto boundary = [&](std::size_t part) { return count / threads * part + std::min(part, count % threads); };
    std::vector<std::thread> helpers;
    helpers.reserve(threads - 1);
    for (std::size_t part = 1; part < threads; ++part) {
        helpers.emplace_back([=, &work] { work(boundary(part), boundary(part + 1)); });
    }
    work(boundary(0), boundary(1));
    for (std::thread& helper : helpers) helper.join();
}

}  // namespace hushvec
