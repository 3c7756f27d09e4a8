// The first row that holds NaN or Inf: x is read once, as one run of elements, whatever the length of its rows.
#pragma once

#include <cmath>

#include "device/element.hpp"
#include "device/team.hpp"
#include "hushvec_cuda/source.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kBadRowThreads = 256;

// 16 bytes of elements, which a thread loads at once.
template <class Stored>
struct alignas(16) Pack {
    static constexpr unsigned kElements = 16 / sizeof(Stored);
    Stored of[kElements];
};

template <class Stored>
struct BadRowBody {
    const Stored* x;
    std::size_t count;
    std::size_t columns;
    Report* report;

    // A block strides over the packs and then over what is left behind the last whole one.
    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            const std::size_t first = block * kBadRowThreads + thread, step = blocks * kBadRowThreads;
            const bool aligned = reinterpret_cast<std::uintptr_t>(x) % sizeof(Pack<Stored>) == 0;
            const std::size_t packs = aligned ? count / Pack<Stored>::kElements : 0;
            const auto* const as_packs = reinterpret_cast<const Pack<Stored>*>(x);
            std::size_t bad_pack = packs;   // chosen without a branch, so that the next packs are loaded meanwhile
            HUSHVEC_UNROLL_BY(4)
            for (std::size_t i = first; i < packs; i += step) {
                const bool is_first = !all_finite(as_packs[i]) & (bad_pack == packs);
                bad_pack = is_first ? i : bad_pack;
            }
            std::size_t bad = bad_pack < packs ? first_bad(bad_pack * Pack<Stored>::kElements) : count;
            for (std::size_t i = packs * Pack<Stored>::kElements + first; i < count; i += step) {
                if (bad == count && !std::isfinite(widened(x[i]))) bad = i;
            }
            if (bad < count) atomic_minimum(&report->first_bad_row, bad / columns);
        });
    }

private:
    static HUSHVEC_INLINE bool all_finite(const Pack<Stored> pack) {
        bool result = true;
        HUSHVEC_UNROLL
        for (unsigned k = 0; k < Pack<Stored>::kElements; ++k) result &= std::isfinite(widened(pack.of[k]));
        return result;
    }

    // From an element on, one of which is bad.
    HUSHVEC_INLINE std::size_t first_bad(std::size_t at) const {
        while (at + 1 < count && std::isfinite(widened(x[at]))) ++at;
        return at;
    }
};

}  // namespace hushvec::cuda
