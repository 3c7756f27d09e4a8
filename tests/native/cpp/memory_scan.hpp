// Looks for secrets in all the memory that this process can write, and in a child's.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

namespace hushvec::test {

// Code that a sanitizer has instrumented spills key words to frames of its own, and is too slow to scan with.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif

// A secret with all bits turned: a scan for it does not find itself.
template <std::size_t Count>
using Turned = std::array<std::uint8_t, Count>;

template <std::size_t Count>
Turned<Count> turned(const void* secret) {
    Turned<Count> result;
    for (std::size_t i = 0; i < Count; ++i) result[i] = static_cast<std::uint8_t>(~static_cast<const volatile std::uint8_t*>(secret)[i]);
    return result;
}

// How often the secrets lie in the writable memory of this process. The window is a mapping that the scan steps over.
template <std::size_t Count>
std::size_t times_in_memory(std::span<const Turned<Count>> secrets) {
    std::array<bool, 256> begins_one{};
    for (const Turned<Count>& secret : secrets) begins_one[static_cast<std::uint8_t>(~secret[0])] = true;
    constexpr std::size_t kWindow = 1 << 20;
    auto* window = static_cast<std::uint8_t*>(mmap(nullptr, kWindow, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const auto window_at = reinterpret_cast<std::uint64_t>(window);
    const int memory = open("/proc/self/mem", O_RDONLY);
    std::FILE* maps = std::fopen("/proc/self/maps", "r");
    std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
    char line[512];
    while (std::fgets(line, sizeof line, maps) != nullptr) {
        unsigned long begin = 0;
        unsigned long end = 0;
        char access[5] = {};
        if (std::sscanf(line, "%lx-%lx %4s", &begin, &end, access) != 3 || access[0] != 'r' || access[1] != 'w') continue;
        if (begin < window_at + kWindow && window_at < end) {   // neighbours may have been merged with it
            if (begin < window_at) extents.emplace_back(begin, window_at);
            if (window_at + kWindow < end) extents.emplace_back(window_at + kWindow, end);
        } else {
            extents.emplace_back(begin, end);
        }
    }
    std::fclose(maps);
    std::size_t found = 0;
    for (const auto& [begin, end] : extents) {
        for (std::uint64_t at = begin; at + Count <= end;) {
            const ssize_t got = pread(memory, window, std::min<std::uint64_t>(kWindow, end - at), static_cast<off_t>(at));
            if (got < static_cast<ssize_t>(Count)) break;
            const auto last = static_cast<std::size_t>(got) - Count;
            for (std::size_t i = 0; i <= last; ++i) {
                if (!begins_one[window[i]]) continue;
                for (const Turned<Count>& secret : secrets) {
                    std::size_t same = 0;
                    while (same < Count && window[i + same] == static_cast<std::uint8_t>(~secret[same])) ++same;
                    if (same == Count) ++found;
                }
            }
            at += last + 1;
        }
    }
    close(memory);
    munmap(window, kWindow);
    return found;
}

template <std::size_t Count>
std::size_t times_in_memory(const Turned<Count>& secret) {
    return times_in_memory(std::span<const Turned<Count>>(&secret, 1));
}

// The exit code of a child that runs `work`; 128 + the signal that ended it.
template <class Work>
int in_child(Work work) {
    const pid_t child = fork();
    if (child == 0) {
        std::signal(SIGSEGV, SIG_DFL);   // sanitizers have a handler of their own
        _exit(work() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace hushvec::test
