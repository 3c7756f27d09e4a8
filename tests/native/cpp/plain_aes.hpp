// AES-256 in the words of FIPS 197, a byte at a time, and the key stream of docs/format.md section 13 from it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include "hushvec/keystream.hpp"

namespace hushvec::test {

using Bytes16 = std::array<std::uint8_t, 16>;
using Bytes32 = std::array<std::uint8_t, 32>;

// FIPS 197 section 4.2: a product modulo x^8 + x^4 + x^3 + x + 1.
inline std::uint8_t field_product(std::uint8_t a, std::uint8_t b) {
    unsigned product = 0;
    for (unsigned factor = a, rest = b; rest != 0; rest >>= 1) {
        if (rest & 1) product ^= factor;
        factor <<= 1;
        if (factor & 0x100) factor ^= 0x11B;
    }
    return static_cast<std::uint8_t>(product);
}

// FIPS 197 section 5.1.1: the inverse, where 0 stays 0, and the affine map.
inline std::array<std::uint8_t, 256> s_box_of_the_standard() {
    std::array<std::uint8_t, 256> box{};
    for (unsigned x = 0; x < 256; ++x) {
        unsigned inverse = 0;
        for (unsigned y = 1; y < 256; ++y) {
            if (field_product(static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)) == 1) inverse = y;
        }
        const auto b = static_cast<std::uint8_t>(inverse);
        box[x] = static_cast<std::uint8_t>(b ^ std::rotl(b, 1) ^ std::rotl(b, 2) ^ std::rotl(b, 3) ^ std::rotl(b, 4) ^ 0x63);
    }
    return box;
}

inline const std::array<std::uint8_t, 256>& plain_s_box() {
    static const std::array<std::uint8_t, 256> box = s_box_of_the_standard();
    return box;
}

class PlainAes256 {
public:
    static constexpr std::size_t kRounds = 14;

    // FIPS 197 section 5.2.
    explicit PlainAes256(const Bytes32& key) {
        std::memcpy(schedule_.data(), key.data(), key.size());
        std::uint8_t round_constant = 1;
        for (std::size_t i = key.size(); i < schedule_.size(); i += 4) {
            std::array<std::uint8_t, 4> word;
            std::memcpy(word.data(), schedule_.data() + i - 4, 4);
            if (i % 32 == 0) word = {word[1], word[2], word[3], word[0]};
            if (i % 16 == 0) {
                for (std::uint8_t& byte : word) byte = plain_s_box()[byte];
            }
            if (i % 32 == 0) {
                word[0] ^= round_constant;
                round_constant = field_product(round_constant, 2);
            }
            for (std::size_t byte = 0; byte < 4; ++byte) schedule_[i + byte] = schedule_[i - 32 + byte] ^ word[byte];
        }
    }

    const std::array<std::uint8_t, 16 * (kRounds + 1)>& schedule() const { return schedule_; }

    // FIPS 197 section 5.1.
    Bytes16 encrypt(Bytes16 state) const {
        add_round_key(state, 0);
        for (std::size_t round = 1; round <= kRounds; ++round) {
            Bytes16 shifted;
            for (std::size_t column = 0; column < 4; ++column) {
                for (std::size_t row = 0; row < 4; ++row) shifted[4 * column + row] = plain_s_box()[state[4 * ((column + row) % 4) + row]];
            }
            state = round == kRounds ? shifted : mixed_columns(shifted);
            add_round_key(state, round);
        }
        return state;
    }

private:
    static Bytes16 mixed_columns(const Bytes16& s) {
        Bytes16 mixed;
        for (std::size_t i = 0; i < 16; ++i) {
            const std::size_t column = i / 4 * 4, row = i % 4;
            mixed[i] = static_cast<std::uint8_t>(field_product(s[i], 2) ^ field_product(s[column + (row + 1) % 4], 3) ^
                                                 s[column + (row + 2) % 4] ^ s[column + (row + 3) % 4]);
        }
        return mixed;
    }

    void add_round_key(Bytes16& state, std::size_t round) const {
        for (std::size_t i = 0; i < 16; ++i) state[i] ^= schedule_[16 * round + i];
    }

    std::array<std::uint8_t, 16 * (kRounds + 1)> schedule_;
};

// RFC 8452 section 4, AES-256: the record encryption key.
inline Bytes32 plain_derived_key(const Bytes32& key, const std::array<std::uint8_t, 12>& nonce) {
    const PlainAes256 aes(key);
    Bytes32 derived;
    for (std::uint8_t i = 0; i < 4; ++i) {
        Bytes16 block = {static_cast<std::uint8_t>(i + 2)};
        std::memcpy(block.data() + 4, nonce.data(), nonce.size());
        std::memcpy(derived.data() + 8 * i, aes.encrypt(block).data(), 8);
    }
    return derived;
}

template <std::size_t Count>
void put_little_endian(std::uint8_t* target, std::uint64_t value) {
    for (std::size_t i = 0; i < Count; ++i) target[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

inline Bytes32 key_bytes(const KeyStream& stream) {
    Bytes32 key;
    for (std::size_t word = 0; word < 8; ++word) put_little_endian<4>(key.data() + 4 * word, stream.key[word]);
    return key;
}

// The key of one segment of a stream.
inline Bytes32 plain_segment_key(const KeyStream& stream, std::uint64_t segment) {
    std::array<std::uint8_t, 12> nonce;
    put_little_endian<8>(nonce.data(), stream.nonce);
    put_little_endian<4>(nonce.data() + 8, segment);
    return plain_derived_key(key_bytes(stream), nonce);
}

// The words of one stream, an AES block at a time.
class PlainAesStream {
public:
    explicit PlainAesStream(const KeyStream& stream) : stream_(stream) {}

    std::array<std::uint32_t, 4> block(std::uint64_t domain_id, std::uint64_t number) {
        Bytes16 counter{};
        counter[8] = static_cast<std::uint8_t>(domain_id);
        for (std::size_t i = 0; i < 7; ++i) counter[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
        const std::uint64_t segment = number >> stream_.segment_bits;
        const auto cipher = ciphers_.try_emplace(segment, plain_segment_key(stream_, segment)).first;
        const Bytes16 bytes = cipher->second.encrypt(counter);
        std::array<std::uint32_t, 4> words{};
        for (std::size_t i = 0; i < 16; ++i) words[i / 4] |= std::uint32_t{bytes[i]} << (8 * (i % 4));
        return words;
    }

    // Word `index` of a group of 64 blocks.
    std::uint32_t word(std::uint64_t domain_id, std::uint64_t group, std::size_t index) {
        return block(domain_id, group * 64 + index / 4)[index % 4];
    }

private:
    const KeyStream& stream_;
    std::map<std::uint64_t, PlainAes256> ciphers_;
};

}  // namespace hushvec::test
