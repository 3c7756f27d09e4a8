// AES-256 as a key stream: a key for every nonce and every segment of it, and the words under that key.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/key_slot.hpp"
#include "hushvec/keystream.hpp"
#include "lanes/aes/kernels.hpp"

namespace hushvec {

// The round keys of one segment of a stream (docs/format.md section 13).
void derive_round_keys(const KeyStream& stream, std::uint64_t segment, AesRoundKeys& round_keys);

// Those of the first segments of streams with nonce 0, one for each key. Side by side a key takes less than half the time.
void derive_round_keys(const AesKey* keys, std::size_t count, AesRoundKeys* const* round_keys);

// The words of groups of one domain. Round keys of segments after the first are in locked memory while they are used.
class AesWords {
public:
    static constexpr std::size_t groups_at_once = 4;   // with one, the first rounds of each would wait: a fill takes 10 % longer

    AesWords(const KeyStream& stream, std::uint64_t domain_id);

    void groups(std::uint64_t first, std::size_t count, std::uint32_t* words);

    // Words of a domain that is laid out in groups, each by its number, that of the sample it makes.
    void at(const std::uint64_t* numbers, std::size_t count, std::uint32_t* words);

    // stream_block() of the same stream and domain, faster where consecutive blocks are of one segment.
    Block block(std::uint64_t index);

private:
    void enter(std::uint64_t segment);

    const KeyStream& stream_;
    std::uint64_t domain_;
    int group_bits_;   // of a group's number within its segment
    std::uint64_t segment_ = 0;
    const AesRoundKeys* round_keys_;
    RoundKeySlot later_;
};

}  // namespace hushvec
