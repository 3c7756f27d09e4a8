#include "rng/aes_stream.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "dispatch/aes_dispatch.hpp"
#include "hushvec/wipe.hpp"
#include "hushvec/wiped_stream.hpp"

namespace hushvec {
namespace {

constexpr int kGroupBlockBits = std::countr_zero(kAesGroupBlocks);
constexpr std::size_t kBlocksOfUnit = kBlockWords / kAesBlockWords;

// RFC 8452 section 4 takes counters 0 and 1 for another key.
constexpr std::uint32_t kFirstKeyCounter = 2;

constexpr std::size_t kKeysAtOnce = 4;

// At most kKeysAtOnce keys.
void derive(const AesKey* keys, std::size_t count, std::uint64_t nonce, std::uint64_t segment, AesRoundKeys* const* round_keys) {
    constexpr std::size_t kBlocks = 4;   // eight bytes of each
    const AesKernels& aes = active_aes();
    AesBlock counters[kBlocks], blocks[kBlocks];
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
        counters[i] = {{kFirstKeyCounter + i, static_cast<std::uint32_t>(nonce), static_cast<std::uint32_t>(nonce >> 32),
                        static_cast<std::uint32_t>(segment)}};
    }
    AesKey derived[kKeysAtOnce];
    aes.expand_keys(keys, count, round_keys);
    for (std::size_t k = 0; k < count; ++k) {
        aes.encrypt(*round_keys[k], counters, kBlocks, blocks);
        for (std::size_t i = 0; i < kBlocks; ++i) std::memcpy(derived[k] + 2 * i, blocks[i].words, 2 * sizeof derived[k][0]);
    }
    aes.expand_keys(derived, count, round_keys);
    wipe(blocks, sizeof blocks);
    wipe(derived, sizeof derived);
}

}  // namespace

void derive_round_keys(const KeyStream& stream, std::uint64_t segment, AesRoundKeys& round_keys) {
    derive(&stream.key, 1, stream.nonce, segment, std::array{&round_keys}.data());
}

void derive_round_keys(const AesKey* keys, std::size_t count, AesRoundKeys* const* round_keys) {
    for (std::size_t first = 0; first < count; first += kKeysAtOnce) {
        derive(keys + first, std::min(kKeysAtOnce, count - first), 0, 0, round_keys + first);
    }
}

WipedStream::WipedStream(const KeyStream& from) : WipedKey(from) {
    if (cipher != Cipher::aes256) return;
    derive_round_keys(*this, 0, round_key_slot_.taken());
    round_keys = &round_key_slot_.taken();
}

AesWords::AesWords(const KeyStream& stream, std::uint64_t domain_id)
    : stream_(stream), domain_(domain_id), group_bits_(stream.segment_bits - kGroupBlockBits), round_keys_(stream.round_keys) {
    if (round_keys_ == nullptr) throw std::logic_error("a stream of AES-256 needs round keys: draw from a WipedStream");
}

void AesWords::enter(std::uint64_t segment) {
    segment_ = segment;
    round_keys_ = stream_.round_keys;
    if (segment == 0) return;
    derive_round_keys(stream_, segment, later_.taken());
    round_keys_ = &later_.taken();
}

void AesWords::groups(std::uint64_t first, std::size_t count, std::uint32_t* words) {
    while (count > 0) {
        const std::uint64_t segment = first >> group_bits_;
        if (segment != segment_) enter(segment);
        const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(count, ((segment + 1) << group_bits_) - first));
        active_aes().keystream(*round_keys_, domain_, first, here, words);
        first += here;
        count -= here;
        words += here * kGroupSamples;
    }
}

void AesWords::at(const std::uint64_t* numbers, std::size_t count, std::uint32_t* words) {
    constexpr std::size_t kAtOnce = 32;
    AesBlock blocks[kAtOnce];
    for (std::size_t done = 0; done < count;) {
        const std::uint64_t segment = numbers[done] / kAesBlockWords >> stream_.segment_bits;
        if (segment != segment_) enter(segment);
        std::size_t here = 0;
        for (; here < std::min(kAtOnce, count - done); ++here) {
            const std::uint64_t block = numbers[done + here] / kAesBlockWords;
            if (block >> stream_.segment_bits != segment) break;
            blocks[here] = aes_counter_block(domain_, block);
        }
        active_aes().encrypt(*round_keys_, blocks, here, blocks);
        for (std::size_t i = 0; i < here; ++i) words[done + i] = blocks[i].words[numbers[done + i] % kAesBlockWords];
        done += here;
    }
}

Block AesWords::block(std::uint64_t index) {
    const std::uint64_t first = index * kBlocksOfUnit;
    if (const std::uint64_t segment = first >> stream_.segment_bits; segment != segment_) enter(segment);
    AesBlock blocks[kBlocksOfUnit];
    for (std::size_t i = 0; i < kBlocksOfUnit; ++i) blocks[i] = aes_counter_block(domain_, first + i);
    active_aes().encrypt(*round_keys_, blocks, kBlocksOfUnit, blocks);
    return std::bit_cast<Block>(blocks);
}

Block stream_block(const KeyStream& stream, std::uint64_t domain_id, std::uint64_t index) {
    if (stream.cipher != Cipher::aes256) return chacha_block(stream, block_counter(domain_id, index));
    return AesWords(stream, domain_id).block(index);
}

Block lane_block(const KeyStream& stream, std::uint64_t domain_id, std::uint64_t lane) {
    if (stream.cipher != Cipher::aes256) return chacha_block(stream, block_counter(domain_id, lane));
    alignas(64) std::uint32_t words[kGroupSamples];
    AesWords(stream, domain_id).groups(lane / kGroupBlocks, 1, words);
    Block of_lane;
    for (std::size_t word = 0; word < kBlockWords; ++word) of_lane[word] = words[word * kGroupBlocks + lane % kGroupBlocks];
    return of_lane;
}

}  // namespace hushvec
