// AES-256 as a key stream: a key for every nonce and every segment of it, and the words under that key.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/key_slot.hpp"
#include "hushvec/keystream.hpp"
#include "rng/aes_kernels.hpp"

namespace hushvec {

// The round keys of one segment of a stream (docs/format.md section 13).
void derive_round_keys(const KeyStream& stream, std::uint64_t segment, AesRoundKeys& round_keys);

// The words of groups of one domain. Segments after the first have round keys in locked memory while they are used.
class AesWords {
public:
    AesWords(const KeyStream& stream, std::uint64_t domain_id);

    void group(std::uint64_t number, std::uint32_t* words) {
        if (number >> group_bits_ != segment_) [[unlikely]]
            enter(number >> group_bits_);
        keystream_(*round_keys_, domain_, number, 1, words);
    }

private:
    void enter(std::uint64_t segment);

    const KeyStream& stream_;
    decltype(AesKernels::keystream) keystream_;
    std::uint64_t domain_;
    int group_bits_;   // of a group's number within its segment
    std::uint64_t segment_ = 0;
    const AesRoundKeys* round_keys_;
    RoundKeySlot later_;
};

}  // namespace hushvec
