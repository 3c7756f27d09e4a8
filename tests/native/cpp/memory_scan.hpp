// Looks for secrets in all the memory that this process can write, and in a child's.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "host.hpp"
#include "os/os.hpp"

namespace hushvec::test {

// Whether a scan says something. Code that a sanitizer has instrumented spills key words to frames of its own, and is too slow to scan
// with.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kScans = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kScans = false;
#else
inline constexpr bool kScans = kReadsMemory;
#endif
#else
inline constexpr bool kScans = kReadsMemory;
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
    std::uint8_t* window = os::map_between_guards(kWindow);
    const auto window_at = reinterpret_cast<std::uint64_t>(window);
    const Memory memory;
    std::size_t found = 0;
    for (const auto& [begin, end] : without(Memory::writable(), {window_at, window_at + kWindow})) {
        for (std::uint64_t at = begin; at + Count <= end;) {
            const std::size_t got = memory.read(at, window, std::min<std::uint64_t>(kWindow, end - at));
            if (got < Count) break;
            const std::size_t last = got - Count;
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
    os::unmap_with_guards(window, kWindow);
    return found;
}

template <std::size_t Count>
std::size_t times_in_memory(const Turned<Count>& secret) {
    return times_in_memory(std::span<const Turned<Count>>(&secret, 1));
}

}  // namespace hushvec::test
