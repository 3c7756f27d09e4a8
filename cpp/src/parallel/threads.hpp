// Splits independent work over threads that live for one call: nothing to keep, nothing that a fork could lose.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "hushvec/threads.hpp"

namespace hushvec {

// Below this many samples a thread costs more than it saves: a call on two threads takes 65 to 75 us more than half of its time on one (AMD
// Zen 4), a sample 0.35 to 0.7 ns.
inline constexpr std::size_t kSamplesPerThread = std::size_t{3} << 16;

inline std::size_t useful_threads(std::size_t count, std::size_t samples_each) {
    const std::size_t useful = std::min(count, count * std::max<std::size_t>(1, samples_each) / kSamplesPerThread);
    return useful <= 1 ? 1 : std::min(num_threads(), useful);
}

// The begin of range `part` of `parts` even ones that cover [0, count).
constexpr std::size_t range_begin(std::size_t part, std::size_t parts, std::size_t count) {
    return count / parts * part + std::min(part, count % parts);
}

inline constexpr std::size_t kRangesPerThread = 8;
inline constexpr std::size_t kOneRange = 1;   // for work that costs more in pieces

// A function that threads call, whatever its type: the code that makes threads is compiled once, and not for every kind of work.
struct ThreadWork {
    template <class Work>
    explicit ThreadWork(const Work& work) : work_(&work), call_([](const void* any) { (*static_cast<const Work*>(any))(); }) {}
    void operator()() const { call_(work_); }

private:
    const void* work_;
    void (*call_)(const void*);
};

// On this thread and, where the system has more, on `threads` in all.
void call_on_threads(std::size_t threads, ThreadWork take_ranges);

// Work on disjoint ranges that cover [0, count); `samples_each` is the work in one item. There are several ranges for each thread, which
// takes the next when it is free: a thread that shares its processor with another program, or with the idle workers of an OpenMP library,
// which spin for a while, does less and holds nobody up. Every thread makes a worker of its own by make_worker(), with the memory that it
// needs, and calls worker(begin, end). Neither may throw.
template <class MakeWorker>
void parallel_ranges(std::size_t count, std::size_t samples_each, MakeWorker make_worker, std::size_t ranges_per_thread = kRangesPerThread) {
    const std::size_t threads = useful_threads(count, samples_each);
    const std::size_t ranges = threads == 1 ? 1 : std::min(count, threads * ranges_per_thread);
    std::atomic<std::size_t> next{0};
    const auto take_ranges = [&] {
        auto worker = make_worker();
        for (std::size_t range = next++; range < ranges; range = next++) worker(range_begin(range, ranges, count), range_begin(range + 1, ranges, count));
    };
    call_on_threads(threads, ThreadWork(take_ranges));
}

// For work that needs no memory of its own: every thread calls work(begin, end).
template <class Work>
void parallel_for(std::size_t count, std::size_t samples_each, const Work& work, std::size_t ranges_per_thread = kRangesPerThread) {
    parallel_ranges(count, samples_each, [&work] { return [&work](std::size_t begin, std::size_t end) { work(begin, end); }; }, ranges_per_thread);
}

}  // namespace hushvec
