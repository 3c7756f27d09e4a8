// Vectors that begin on a cache line: 64-byte loads and stores of their elements never cross one. New elements are not set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace hushvec {

template <class T>
struct LineAllocator {
    using value_type = T;
    static constexpr std::size_t kLine = 64;

    LineAllocator() = default;
    template <class U>
    LineAllocator(const LineAllocator<U>&) {}

    // Ordinary memory, aligned here: the C library cuts aligned memory out of larger pieces, and a small call would wait for it to join
    // the rest again. The byte before the elements says how far they lie in their memory, 64 bytes at most.
    T* allocate(std::size_t count) {
        auto* memory = static_cast<unsigned char*>(::operator new(count * sizeof(T) + kLine));
        const std::size_t shift = kLine - reinterpret_cast<std::uintptr_t>(memory) % kLine;
        memory[shift - 1] = static_cast<unsigned char>(shift);
        return reinterpret_cast<T*>(memory + shift);
    }
    void deallocate(T* elements, std::size_t) {
        auto* at = reinterpret_cast<unsigned char*>(elements);
        ::operator delete(at - at[-1]);
    }

    template <class U>
    void construct(U* at) {
        ::new (static_cast<void*>(at)) U;
    }
    template <class U, class... Arguments>
    void construct(U* at, Arguments&&... arguments) {
        ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
    }

    bool operator==(const LineAllocator&) const = default;
};

template <class T>
using LineVector = std::vector<T, LineAllocator<T>>;

}  // namespace hushvec
