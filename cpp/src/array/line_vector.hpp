// Vectors that begin on a cache line: 64-byte loads and stores of their elements never cross one. New elements are not set.
#pragma once

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

namespace hushvec {

template <class T>
struct LineAllocator {
    using value_type = T;
    static constexpr std::align_val_t kLine{64};

    LineAllocator() = default;
    template <class U>
    LineAllocator(const LineAllocator<U>&) {}

    T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
    void deallocate(T* memory, std::size_t) { ::operator delete(memory, kLine); }

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
