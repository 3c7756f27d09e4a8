// Exact noise of version 3 on a tile of rows (rows_body.hpp). What level 0 leaves open is listed in shared memory, the words alone,
// as the tile still has the elements when it ends; then level 1 settles it, while what was written is in a cache. What level 1 leaves
// open too goes to refine_body.hpp.
#pragma once

#include "device/half_noise.hpp"
#include "device/open_samples.hpp"
#include "device/rows_body.hpp"

namespace hushvec::cuda {

// A pair that level 0 left open, as its tile knows it.
struct alignas(8) OpenOfTile {
    std::uint32_t word;
    std::uint32_t sample;   // the first of the two, in shared memory
};

// Where a tile lists what it leaves open. Of its pairs 1 in 115 is open (Laplace, s = 16; Gaussian 1 in 155): 27 of 3,072, and
// more than the 160 that there is room for once in 10^60 tiles, which is reported then.
struct TileList {
    std::uint32_t* listed;   // may exceed the room
    std::uint32_t room;
    OpenOfTile* pairs;

    HUSHVEC_INLINE TileList(void* memory, std::uint32_t samples_of_tile)
        : listed(static_cast<std::uint32_t*>(memory)), room(room_for(samples_of_tile)), pairs(static_cast<OpenOfTile*>(memory) + 1) {}

    static HUSHVEC_INLINE std::uint32_t room_for(std::uint32_t samples_of_tile) { return 64 + samples_of_tile / 64; }
    static std::size_t bytes(std::uint32_t samples_of_tile) { return (1 + room_for(samples_of_tile)) * sizeof(OpenOfTile); }

    HUSHVEC_INLINE void add(const OpenOfTile& pair) const {
        const std::uint32_t slot = atomic_increment(listed);
        if (slot < room) pairs[slot] = pair;
    }
};

struct TilesOfHalfWords {
    static constexpr std::uint32_t kSpan = kHalfWordGroups * kGroup;
    static constexpr unsigned kThreads = 96;   // two blocks of the stream each in a tile of 6,144 samples
    static constexpr bool kLists = true;
    static std::size_t list_bytes(std::uint32_t samples_of_tile) { return TileList::bytes(samples_of_tile); }
};

// kRowOfGroup: a group lies in one row, and tiles begin with even groups.
template <class Stored, class Noise, bool kRowOfGroup>
struct HalfNoiseWork : TilesOfHalfWords {
    static constexpr bool kWholeGroups = kRowOfGroup;
    using OfTile = Tile<Stored, kSpan>;

    CallStream source;
    Noise noise;
    OpenPairs open;

    HUSHVEC_INLINE HalfNoiseWork(const CallStream& from, const Noise& of, const OpenPairs& listed)
        : source(from), noise(of), open(listed) {}

    HUSHVEC_INLINE void begin(void* memory, std::uint32_t samples_of_tile, unsigned thread) const {
        if (thread == 0) *TileList(memory, samples_of_tile).listed = 0;
    }

    HUSHVEC_INLINE void run(const OfTile& tile, unsigned thread) const {
        ThreadHalfNoise<Noise> thread_noise(noise, source);
        const TileList list = list_of(tile);
        const unsigned lane = thread % kLanes;
        for (std::uint32_t span = thread / kLanes; span * kSpan < tile.end; span += kThreads / kLanes) {
            thread_noise.block(tile.first_span + span, lane, [&](std::uint32_t part, auto go_on) HUSHVEC_INLINE_LAMBDA {
                const std::uint32_t group = span * kHalfWordGroups + part;
                if (part > 0 && group * kGroup >= tile.end) return;   // it may not lie in shared memory
                if (!kRowOfGroup && (group + 1) * kGroup <= tile.begin) return;
                with_samples<kRowOfGroup>(tile, group, lane, [&](auto read, auto write, std::uint32_t) HUSHVEC_INLINE_LAMBDA {
                    go_on(read, write, [=](unsigned w, std::uint32_t word, auto, auto) HUSHVEC_INLINE_LAMBDA {
                        list.add({word, group * kGroup + w * kLanes + lane});
                    });
                });
            });
        }
    }

    HUSHVEC_INLINE void finish(const OfTile& tile, unsigned thread) const {
        const TileList list = list_of(tile);
        const std::uint32_t all = *list.listed, listed = all < list.room ? all : list.room;
        if (all > list.room && thread == 0) *open.overflow = 1;
        HUSHVEC_UNROLL_BY(1)
        for (std::uint32_t i = thread; i < listed; i += kThreads) settle(tile, list.pairs[i]);
    }

private:
    static HUSHVEC_INLINE TileList list_of(const OfTile& tile) { return {tile.behind, tile.shape.samples_of_spans()}; }

    HUSHVEC_INLINE void settle(const OfTile& tile, const OpenOfTile& listed) const {
        const std::uint32_t first = listed.sample, second = first + kGroup / 2;
        const std::uint64_t before = tile.first_span * (kHalfWordGroups * kGroupPairs);
        const std::uint64_t pair = before + first / kGroup * kGroupPairs + first % kGroup;
        const bool has_first = has(tile, first), has_second = has(tile, second);
        const Wide<Stored> x_first = has_first ? element(tile, first) : 0, x_second = has_second ? element(tile, second) : 0;
        const RefinedPair refined = noise.refined(listed.word, refinement_word(stream_of(source), pair), x_first, x_second);
        if (refined.open) {
            open.add({pair, {listed.word, 0}, {has_first ? double{x_first} : kNotOurs, has_second ? double{x_second} : kNotOurs}});
            return;
        }
        if (has_first) tile.out[first] = narrowed<Stored>(refined.first * noise.grid);
        if (has_second) tile.out[second] = narrowed<Stored>(refined.second * noise.grid);
    }

    static HUSHVEC_INLINE bool has(const OfTile& tile, std::uint32_t sample) { return sample >= tile.begin && sample < tile.end; }

    static HUSHVEC_INLINE Wide<Stored> element(const OfTile& tile, std::uint32_t sample) {
        return widened(tile.elements[sample]) * tile.scales[tile.shape.by_columns.divide(tile.column + sample)];
    }
};

}  // namespace hushvec::cuda
