// What tests need of the operating system: children, and a view of all that this process can write.
#pragma once

#if defined(__linux__)
#include <fcntl.h>
#endif
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#if !defined(NOMINMAX)   // libstdc++ of mingw-w64 defines it
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "os/os.hpp"

namespace hushvec::test {

// ---- children

#if defined(_WIN32)
inline constexpr bool kForks = false;

template <class Work>
int in_child(Work) {
    std::abort();   // ask kForks first
}
[[noreturn]] inline void leave(int code) { std::_Exit(code); }
#else
inline constexpr bool kForks = true;

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
[[noreturn]] inline void leave(int code) { _exit(code); }
#endif

inline void skip_without_fork(const char* what) { std::printf("skipped: %s, as this system has no fork()\n", what); }

// ---- memory

using Extent = std::pair<std::uint64_t, std::uint64_t>;   // begin, end

#if defined(__linux__)
inline constexpr bool kReadsMemory = true;

class Memory {
public:
    Memory() : file_(open("/proc/self/mem", O_RDONLY)) {}
    ~Memory() { close(file_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    static std::vector<Extent> writable() {
        std::vector<Extent> extents;
        std::FILE* maps = std::fopen("/proc/self/maps", "r");
        char line[512];
        while (std::fgets(line, sizeof line, maps) != nullptr) {
            unsigned long begin = 0;
            unsigned long end = 0;
            char access[5] = {};
            if (std::sscanf(line, "%lx-%lx %4s", &begin, &end, access) == 3 && access[0] == 'r' && access[1] == 'w') extents.emplace_back(begin, end);
        }
        std::fclose(maps);
        return extents;
    }

    // How many bytes could be read, from `at` on.
    std::size_t read(std::uint64_t at, void* into, std::size_t size) const {
        const ssize_t got = pread(file_, into, size, static_cast<off_t>(at));
        return got < 0 ? 0 : static_cast<std::size_t>(got);
    }

private:
    int file_;
};
#elif defined(_WIN32)
inline constexpr bool kReadsMemory = true;

class Memory {
public:
    static std::vector<Extent> writable() {
        std::vector<Extent> extents;
        MEMORY_BASIC_INFORMATION region;
        for (std::uint64_t at = 0; VirtualQuery(reinterpret_cast<void*>(at), &region, sizeof region) != 0;) {
            const auto begin = reinterpret_cast<std::uint64_t>(region.BaseAddress), end = begin + region.RegionSize;
            const bool writable = (region.Protect & (PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY)) != 0;
            if (region.State == MEM_COMMIT && writable && (region.Protect & PAGE_GUARD) == 0) extents.emplace_back(begin, end);
            at = end;
        }
        return extents;
    }

    std::size_t read(std::uint64_t at, void* into, std::size_t size) const {
        SIZE_T got = 0;
        return ReadProcessMemory(GetCurrentProcess(), reinterpret_cast<void*>(at), into, size, &got) == 0 ? 0 : got;
    }
};
#else
inline constexpr bool kReadsMemory = false;   // macOS gives it to debuggers

class Memory {
public:
    static std::vector<Extent> writable() { return {}; }
    std::size_t read(std::uint64_t, void*, std::size_t) const { return 0; }
};
#endif

// The same without what lies in the other extent.
inline std::vector<Extent> without(const std::vector<Extent>& extents, Extent other) {
    std::vector<Extent> rest;
    for (const auto& [begin, end] : extents) {
        if (end <= other.first || other.second <= begin) {
            rest.emplace_back(begin, end);
            continue;
        }
        if (begin < other.first) rest.emplace_back(begin, other.first);
        if (other.second < end) rest.emplace_back(other.second, end);
    }
    return rest;
}

}  // namespace hushvec::test
