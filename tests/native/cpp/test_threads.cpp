// Work in ranges: every item once, and the caller's thread as it was.
#if defined(__linux__)
#include <sched.h>
#endif

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "hushvec/threads.hpp"
#include "parallel/threads.hpp"

namespace {

using namespace hushvec;
using test::check;

void every_item_is_worked_at_once() {
    for (const std::size_t threads : {1u, 2u, 5u}) {
        set_num_threads(threads);
        for (const std::size_t count : {0u, 1u, 7u, 16u, 1000u}) {
            std::vector<std::atomic<int>> seen(count);
            parallel_ranges(count, kSamplesPerThread, [&] {
                return [&](std::size_t begin, std::size_t end) {
                    for (std::size_t item = begin; item < end; ++item) ++seen[item];
                };
            });
            bool once = true;
            for (const auto& times : seen) once &= times == 1;
            check(once, std::to_string(count) + " items on " + std::to_string(threads) + " threads");
        }
    }
    set_num_threads(0);
}

// Starting a thread takes longer than that much work.
void small_work_stays_on_its_thread() {
    set_num_threads(8);
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> calls{0}, elsewhere{0};
    parallel_for(2 * kSamplesPerThread - 1, 1, [&](std::size_t, std::size_t) {
        ++calls;
        if (std::this_thread::get_id() != caller) ++elsewhere;
    });
    check(calls == 1 && elsewhere == 0, "work for less than two threads is one range on the caller's");
    set_num_threads(0);
}

void work_comes_in_as_many_ranges_as_asked_for() {
    set_num_threads(2);
    for (const std::size_t each : {kOneRange, kRangesPerThread}) {
        std::atomic<std::size_t> calls{0};
        parallel_for(1000, kSamplesPerThread, [&](std::size_t, std::size_t) { ++calls; }, each);
        check(calls == 2 * each, std::to_string(each) + " ranges for each of two threads");
    }
    set_num_threads(0);
}

// A helper of a short call may have ended before the caller goes on, above all where others want the processors.
// Without Crew::hold one run in three of this finds it. Sanitizers, which look for other things, take nine times as long for it.
void the_caller_keeps_its_processors() {
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    cpu_set_t before, after;
    check(sched_getaffinity(0, sizeof before, &before) == 0, "processors are known");
    std::atomic<bool> busy{true};
    std::vector<std::thread> others;
    for (int other = 0; other < CPU_COUNT(&before); ++other) {
        others.emplace_back([&busy] {
            while (busy) std::this_thread::yield();
        });
    }
    set_num_threads(3);
    for (int call = 0; call < 15000; ++call) {
        parallel_ranges(3, kSamplesPerThread, [] { return [](std::size_t, std::size_t) {}; });
    }
    set_num_threads(0);
    busy = false;
    for (std::thread& other : others) other.join();
    check(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after), "short calls leave the caller's processors as they were");
#endif
}

}  // namespace

int main() {
    every_item_is_worked_at_once();
    small_work_stays_on_its_thread();
    work_comes_in_as_many_ranges_as_asked_for();
    the_caller_keeps_its_processors();
    return hushvec::test::summary();
}
