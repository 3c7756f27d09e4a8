// Words of single samples: in the layout of docs/format.md section 2, a group at a time and only those asked for, and blocks that stand alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "dispatch/dispatch.hpp"
#include "hushvec/keystream.hpp"
#include "rng/aes_stream.hpp"

namespace hushvec {

// The high and the low words of so many groups are 16 KiB, which stay in the first-level cache.
inline constexpr std::size_t kGroupsAtOnce = 8;

class SampleWords {
public:
    SampleWords(const KeyStream& stream, std::uint64_t domain_id) : stream_(stream), domain_(domain_id) {}

    std::uint32_t operator()(std::uint64_t sample) {
        const std::uint64_t group = sample / kGroupSamples;
        if (group != held_) {
            active_kernels().keystream(stream_, domain_, group, 1, words_);
            held_ = group;
        }
        return words_[sample % kGroupSamples];
    }

private:
    const KeyStream& stream_;
    std::uint64_t domain_;
    std::uint64_t held_ = ~std::uint64_t{0};   // no group has this number
    alignas(64) std::uint32_t words_[kGroupSamples];
};

// Blocks of a domain whose blocks stand alone.
class LoneBlocks {
public:
    LoneBlocks(const KeyStream& stream, std::uint64_t domain_id) : stream_(stream), domain_(domain_id) {
        if (stream.cipher == Cipher::aes256) aes_.emplace(stream, domain_id);
    }

    Block operator()(std::uint64_t index) { return aes_ ? aes_->block(index) : chacha_block(stream_, block_counter(domain_, index)); }

private:
    const KeyStream& stream_;
    std::uint64_t domain_;
    std::optional<AesWords> aes_;
};

}  // namespace hushvec
