#include "parallel/threads.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "hushvec/float_modes.hpp"
#include "hushvec/stack_frames.hpp"
#include "os/mutex.hpp"
#include "os/os.hpp"

#if HUSHVEC_THREADS
#include <condition_variable>
#include <memory>
#include <system_error>
#include <thread>
#endif

namespace hushvec {
namespace {

constexpr const char* kThreadsVariable = "HUSHVEC_NUM_THREADS";

std::size_t from_environment() {
    const char* text = std::getenv(kThreadsVariable);
    if (text == nullptr || *text == '\0') return 0;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*end != '\0' || value < 0) {
        throw std::invalid_argument(std::string(kThreadsVariable) + " must be a whole number >= 0, got " + text);
    }
    return static_cast<std::size_t>(value);
}

std::atomic<std::size_t>& requested() {
    static std::atomic<std::size_t> count{from_environment()};
    return count;
}

#if HUSHVEC_THREADS
// Asked once: the C library reads a file of the kernel for it, which takes longer than a small call (7.5 us, glibc 2.36).
std::size_t all_cores() {
    static const std::size_t count = std::max<std::size_t>(1, std::thread::hardware_concurrency());
    return count;
}

// Who works at a call's ranges. A helper that the system has not started by the time the last range is taken finds the crew closed and
// ends: the call does not wait for it, which on a busy machine would take milliseconds.
class Crew {
public:
    // Nobody enters while it is held.
    std::unique_lock<std::mutex> hold() { return std::unique_lock<std::mutex>(mutex_); }
    bool enter() {
        const std::lock_guard<std::mutex> lock(mutex_);
        working_ += closed_ ? 0 : 1;
        return !closed_;
    }
    void leave() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (--working_ == 0) nobody_.notify_one();
    }
    void close() {
        std::unique_lock<std::mutex> lock(mutex_);
        closed_ = true;
        nobody_.wait(lock, [this] { return working_ == 0; });
    }

private:
    std::mutex mutex_;
    std::condition_variable nobody_;
    std::size_t working_ = 0;
    bool closed_ = false;
};
#else
std::size_t all_cores() { return 1; }
#endif

}  // namespace

void set_num_threads(std::size_t count) { requested() = count; }

std::size_t num_threads() {
    const std::size_t count = requested();
    return count != 0 ? count : all_cores();
}

void call_on_threads(std::size_t threads, ThreadWork take_ranges) {
    if (threads == 1 || HUSHVEC_THREADS == 0) return take_ranges();
#if HUSHVEC_THREADS
    const auto crew = std::make_shared<Crew>();
    const auto help = [crew, &take_ranges] {
        const FloatModes modes;
        if (!crew->enter()) return;   // take_ranges may be gone
        take_ranges();
        wipe_deep_stack_below();
        crew->leave();
    };
    try {
        const auto hold = crew->hold();   // so that no helper has ended before it is moved: the C library would move this thread instead
        for (std::size_t helper = 1; helper < threads; ++helper) {
            std::thread thread(help);
            os::move_away(thread);   // it would begin on this one's processor, and may wait there for milliseconds while others are idle
            thread.detach();
        }
    } catch (const std::system_error&) {
        // No more threads to be had: those that there are do the work.
    }
    take_ranges();
    crew->close();
#endif
}

}  // namespace hushvec
