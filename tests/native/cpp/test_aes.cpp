// AES-256: published vectors and a plain version, on every implementation; the keys and counters of the stream.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "check.hpp"
#include "dispatch/aes_dispatch.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/wiped_stream.hpp"
#include "plain_aes.hpp"
#include "rng/aes_stream.hpp"
#include "test_stream.hpp"

namespace {

using namespace hushvec;
using test::Bytes16;
using test::Bytes32;
using test::check;
using test::PlainAes256;
using test::PlainAesStream;
using test::test_stream;

std::vector<std::uint8_t> from_hex(const std::string& digits) {
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2) bytes.push_back(static_cast<std::uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
    return bytes;
}

Bytes32 key_from_hex(const std::string& digits) {
    Bytes32 key;
    std::ranges::copy(from_hex(digits), key.begin());
    return key;
}

std::vector<AesBlock> blocks_of(const std::vector<std::uint8_t>& bytes) {
    std::vector<AesBlock> blocks(bytes.size() / sizeof(AesBlock));
    std::ranges::copy(bytes, reinterpret_cast<std::uint8_t*>(blocks.data()));
    return blocks;
}

std::vector<std::uint8_t> bytes_of(const std::vector<AesBlock>& blocks, std::size_t count) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(blocks.data());
    return {bytes, bytes + sizeof(AesBlock) * count};
}

AesRoundKeys expanded(const AesKernels& aes, const Bytes32& key) {
    AesKey words;
    std::memcpy(words, key.data(), sizeof words);
    AesRoundKeys round_keys, *to = &round_keys;
    aes.expand_keys(&words, 1, &to);
    return round_keys;
}

std::vector<std::uint8_t> encrypted(const AesKernels& aes, const Bytes32& key, const std::vector<std::uint8_t>& plain) {
    const AesRoundKeys round_keys = expanded(aes, key);
    std::vector<AesBlock> blocks = blocks_of(plain);
    aes.encrypt(round_keys, blocks.data(), blocks.size(), blocks.data());
    return bytes_of(blocks, blocks.size());
}

// Bytes and keys without a pattern.
std::vector<std::uint8_t> scattered(std::size_t count, std::uint32_t state) {
    std::vector<std::uint8_t> bytes(count);
    for (std::uint8_t& byte : bytes) {
        state = state * 1664525u + 1013904223u;
        byte = static_cast<std::uint8_t>(state >> 24);
    }
    return bytes;
}

Bytes32 scattered_key(std::uint32_t state) {
    Bytes32 key;
    std::ranges::copy(scattered(32, state), key.begin());
    return key;
}

KeyStream aes_stream(int segment_bits = kAesSegmentBits) {
    KeyStream stream = test_stream(Cipher::aes256);
    stream.segment_bits = static_cast<std::int16_t>(segment_bits);
    return stream;
}

template <class Test>
void on_every_implementation(Test test) {
    for (const std::string& name : available_aes()) test(aes_by_name(name), " (" + name + ")");
}

const std::string kStandardKey = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";   // FIPS 197 A.3 and SP 800-38A
const std::string kStandardPlain =                                                                     // SP 800-38A appendix F
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

void key_expansion_of_fips_197(const AesKernels& aes, const std::string& where) {
    const std::vector<std::uint8_t> expected = from_hex(   // appendix A.3, w[0] to w[59]
        "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff49ba354118e6925afa51a8b5f2067fcdea8b09c1a93d194cdbe49846eb75d5b9a"
        "d59aecb85bf3c917fee94248de8ebe96b5a9328a2678a647983122292f6c79b3812c81addadf48ba24360af2fab8b46498c5bfc9bebd198e268c3ba709e04214"
        "68007bacb2df331696e939e46c518d80c814e20476a9fb8a5025c02d59c58239de1369676ccc5a71fa2563959674ee155886ca5d2e2f31d77e0af1fa27cf73c3"
        "749c47ab18501ddae2757e4f7401905acafaaae3e4d59b349adf6acebd10190dfe4890d1e6188d0b046df344706c631e");
    const AesRoundKeys round_keys = expanded(aes, key_from_hex(kStandardKey));
    check(expected.size() == sizeof round_keys && std::memcmp(round_keys.words, expected.data(), sizeof round_keys) == 0,
          "FIPS 197 A.3, key expansion" + where);
}

void keys_side_by_side(const AesKernels& aes, const std::string& where) {
    for (std::size_t count = 0; count <= 9; ++count) {
        std::vector<std::array<std::uint32_t, kAesKeyWords>> keys(count);
        std::vector<AesRoundKeys> round_keys(count);
        std::vector<AesRoundKeys*> to;
        for (std::size_t i = 0; i < count; ++i) {
            std::memcpy(keys[i].data(), scattered_key(static_cast<std::uint32_t>(i)).data(), sizeof keys[i]);
            to.insert(to.begin(), &round_keys[i]);   // not in the order of memory
        }
        aes.expand_keys(reinterpret_cast<const AesKey*>(keys.data()), count, to.data());
        bool agree = true;
        for (std::size_t i = 0; i < count; ++i) {
            const PlainAes256 plain(scattered_key(static_cast<std::uint32_t>(i)));
            agree &= std::memcmp(to[i]->words, plain.schedule().data(), sizeof *to[i]) == 0;
        }
        check(agree, std::to_string(count) + " keys expanded side by side" + where);
    }
}

void vectors_of_the_standards(const AesKernels& aes, const std::string& where) {
    check(encrypted(aes, key_from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
                    from_hex("00112233445566778899aabbccddeeff")) == from_hex("8ea2b7ca516745bfeafc49904b496089"),
          "FIPS 197 C.3" + where);
    const Bytes32 key = key_from_hex(kStandardKey);
    check(encrypted(aes, key, from_hex(kStandardPlain)) ==
              from_hex("f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870"
                       "b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7"),
          "SP 800-38A F.1.5, ECB-AES256" + where);

    std::vector<std::uint8_t> text = encrypted(aes, key, from_hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfefff0f1f2f3f4f5f6f7f8f9fafbfcfdff00"
                                                                  "f0f1f2f3f4f5f6f7f8f9fafbfcfdff01f0f1f2f3f4f5f6f7f8f9fafbfcfdff02"));
    const std::vector<std::uint8_t> plain = from_hex(kStandardPlain);
    for (std::size_t i = 0; i < text.size(); ++i) text[i] ^= plain[i];
    check(text == from_hex("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
                           "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"),
          "SP 800-38A F.5.5, CTR-AES256" + where);
}

void the_s_box_is_the_standards(const AesKernels& aes, const std::string& where) {
    bool words_agree = true;
    for (unsigned x = 0; x < 256; ++x) {   // word 8 is SubWord(RotWord(word 7)) and the round constant 1, word 12 SubWord(word 11)
        Bytes32 key{};
        for (std::size_t byte = 28; byte < 32; ++byte) key[byte] = static_cast<std::uint8_t>(x);
        const std::uint32_t s = test::plain_s_box()[x];
        const AesRoundKeys keys = expanded(aes, key);
        words_agree &= keys.words[8] == (s * 0x01010101u ^ 1u);
        words_agree &= std::memcmp(keys.words, PlainAes256(key).schedule().data(), sizeof keys) == 0;
    }
    check(words_agree, "the S-box in the key schedule" + where);

    // With round keys of zero, and one block for every byte, each of its 16 bytes meets the S-box at once.
    const AesRoundKeys none{};
    std::vector<AesBlock> in(256), out(256);
    for (unsigned x = 0; x < 256; ++x) std::memset(&in[x], static_cast<int>(x), sizeof in[x]);
    aes.encrypt(none, in.data(), in.size(), out.data());
    bool blocks_agree = true;
    for (unsigned x = 0; x < 256; ++x) {   // equal bytes stay equal: ShiftRows moves them, and MixColumns adds 2 + 3 + 1 + 1 = 1 of them
        std::uint8_t s = static_cast<std::uint8_t>(x);
        for (std::size_t round = 0; round < kAesRounds; ++round) s = test::plain_s_box()[s];
        for (const std::uint32_t word : out[x].words) blocks_agree &= word == s * 0x01010101u;
    }
    check(blocks_agree, "the S-box in the rounds" + where);
    check(test::plain_s_box()[0x53] == 0xed, "FIPS 197 section 5.1.1, the example");
}

void any_number_of_blocks(const AesKernels& aes, const std::string& where) {
    for (const std::size_t count : {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 15u, 16u, 17u, 33u, 257u}) {
        const auto seed = static_cast<std::uint32_t>(count);
        const Bytes32 key = scattered_key(seed + 1);
        const std::vector<std::uint8_t> plain = scattered(16 * count, seed + 1000);
        const PlainAes256 reference(key);
        std::vector<std::uint8_t> expected;
        for (std::size_t i = 0; i < count; ++i) {
            Bytes16 block;
            std::copy_n(plain.begin() + static_cast<std::ptrdiff_t>(16 * i), 16, block.begin());
            std::ranges::copy(reference.encrypt(block), std::back_inserter(expected));
        }
        const AesRoundKeys round_keys = expanded(aes, key);
        const std::vector<AesBlock> in = blocks_of(plain);
        std::vector<AesBlock> apart(count + 1, AesBlock{{7, 7, 7, 7}}), same = in;
        aes.encrypt(round_keys, in.data(), count, apart.data());
        aes.encrypt(round_keys, same.data(), count, same.data());
        const std::string what = std::to_string(count) + " blocks" + where;
        check(std::ranges::equal(expected, bytes_of(apart, count)), what);
        check(std::ranges::equal(expected, bytes_of(same, count)), what + ", in place");
        check(apart[count].words[0] == 7 && apart[count].words[3] == 7, what + ", nothing behind them");
    }
}

// Where numbers carry from byte to byte, where segments end, and the last group of a domain.
constexpr std::uint64_t kPlaces[] = {0,
                                     2,
                                     (1u << 18) - 2,   // 2^24 blocks: the end of a segment
                                     (1u << 26) - 1,
                                     (std::uint64_t{1} << 34) - 1,
                                     (std::uint64_t{1} << 42) - 3,
                                     (std::uint64_t{1} << 50) - 3};

constexpr std::uint64_t kDomains[] = {domain::kMain, domain::kFirstExtension, domain::kLowWords, domain::kComponents, domain::kColumn, 255};

void counter_mode_of_whole_groups(const AesKernels& aes, const std::string& where) {
    constexpr std::size_t kGroups = 3;
    const Bytes32 key = scattered_key(5);
    const PlainAes256 reference(key);
    const AesRoundKeys round_keys = expanded(aes, key);
    for (const std::uint64_t domain_id : kDomains) {
        for (const std::uint64_t first : kPlaces) {
            std::vector<std::uint32_t> words(kGroups * kGroupSamples + 1, 7);
            aes.keystream(round_keys, domain_id, first, kGroups, words.data());
            bool agree = true;
            for (std::size_t j = 0; j < kGroups * kAesGroupBlocks; ++j) {
                const std::uint64_t number = first * kAesGroupBlocks + j;
                Bytes16 counter{};
                counter[8] = static_cast<std::uint8_t>(domain_id);
                for (std::size_t i = 0; i < 7; ++i) counter[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
                agree &= std::memcmp(words.data() + 4 * j, reference.encrypt(counter).data(), 16) == 0;
            }
            check(agree, "groups from " + std::to_string(first) + " of domain " + std::to_string(domain_id) + where);
            check(words.back() == 7, "nothing behind the groups" + where);
        }
    }
}

KeyStream stream_with(const Bytes32& key, const std::string& nonce_and_segment, std::uint64_t& segment) {
    const std::vector<std::uint8_t> bytes = from_hex(nonce_and_segment);
    KeyStream stream;
    stream.cipher = Cipher::aes256;
    std::memcpy(stream.key, key.data(), key.size());
    std::memcpy(&stream.nonce, bytes.data(), 8);
    std::uint32_t last;
    std::memcpy(&last, bytes.data() + 8, 4);
    segment = last;
    return stream;
}

// RFC 8452 appendix C.2: the nonces' last four bytes are the segment, 0 in the first.
void keys_are_derived_as_in_rfc_8452() {
    const std::string vectors[][3] = {
        {"0100000000000000000000000000000000000000000000000000000000000000", "030000000000000000000000",
         "b914f4742be9e1d7a2f84addbf96dec3456e3c6c05ecc157cdbf0700fedad222"},
        {"e66021d5eb8e4f4066d4adb9c33560e4f46e44bb3da0015c94f7088736864200", "e0eaf5284d884a0e77d31646",
         "7c7c3d9a542cef53dde0e6de9b5800400f82e73ec5f7ee41b7ba8dcb9ba078c3"},
    };
    for (const auto& [key, nonce, derived] : vectors) {
        std::uint64_t segment;
        const KeyStream stream = stream_with(key_from_hex(key), nonce, segment);
        AesRoundKeys round_keys;
        derive_round_keys(stream, segment, round_keys);
        check(std::memcmp(round_keys.words, PlainAes256(key_from_hex(derived)).schedule().data(), sizeof round_keys) == 0,
              "RFC 8452 C.2, nonce " + nonce);
        check(test::plain_segment_key(stream, segment) == key_from_hex(derived), "RFC 8452 C.2, plainly, nonce " + nonce);
    }
}

void keys_of_many_streams_are_derived_as_one() {
    for (const std::size_t count : {1u, 3u, 4u, 5u, 16u, 17u}) {
        std::vector<KeyStream> streams(count);
        std::vector<std::array<std::uint32_t, kAesKeyWords>> keys(count);
        std::vector<AesRoundKeys> round_keys(count);
        std::vector<AesRoundKeys*> to;
        for (std::size_t i = 0; i < count; ++i) {
            streams[i].cipher = Cipher::aes256;
            std::memcpy(streams[i].key, scattered_key(static_cast<std::uint32_t>(i)).data(), sizeof streams[i].key);
            std::memcpy(keys[i].data(), streams[i].key, sizeof keys[i]);
            to.push_back(&round_keys[i]);
        }
        derive_round_keys(reinterpret_cast<const AesKey*>(keys.data()), count, to.data());
        bool agree = true;
        for (std::size_t i = 0; i < count; ++i) {
            const Bytes32 derived = test::plain_segment_key(streams[i], 0);
            agree &= std::memcmp(round_keys[i].words, PlainAes256(derived).schedule().data(), sizeof round_keys[i]) == 0;
        }
        check(agree, "round keys of " + std::to_string(count) + " streams at once");
    }
}

void keys_differ_by_nonce_and_segment() {
    std::set<std::vector<std::uint32_t>> keys;
    for (const std::uint64_t nonce : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32, (std::uint64_t{1} << 48) - 1}) {
        for (const std::uint64_t segment : {0u, 1u, 2u, 1u << 16}) {
            KeyStream stream = aes_stream();
            stream.nonce = nonce;
            AesRoundKeys round_keys;
            derive_round_keys(stream, segment, round_keys);
            keys.insert({round_keys.words, round_keys.words + kAesKeyWords});
        }
    }
    check(keys.size() == 16, "a key for every nonce and every segment");
}

// Segments of 256 blocks: four groups, or 64 lone blocks.
constexpr int kShortSegment = 8;

std::vector<std::uint32_t> plain_groups(PlainAesStream& plain, std::uint64_t domain_id, std::uint64_t first, std::size_t groups) {
    std::vector<std::uint32_t> words;
    for (std::size_t i = 0; i < groups * kGroupSamples; ++i) {
        words.push_back(plain.word(domain_id, first + i / kGroupSamples, i % kGroupSamples));
    }
    return words;
}

void words_take_a_key_a_segment(int segment_bits) {
    const WipedStream stream(aes_stream(segment_bits));
    PlainAesStream plain(stream);
    for (const std::uint64_t domain_id : kDomains) {
        AesWords words(stream, domain_id);
        for (const std::uint64_t group : {0u, 1u, 3u, 4u, 5u, 7u, 8u, 3u, 0u, 1024u, (1u << 18) - 1, 1u << 18, (1u << 18) - 1, 2u}) {   // back and forth
            std::uint32_t got[kGroupSamples];
            words.groups(group, 1, got);
            check(std::ranges::equal(got, plain_groups(plain, domain_id, group, 1)),
                  "group " + std::to_string(group) + " of domain " + std::to_string(domain_id) + ", segments of 2^" + std::to_string(segment_bits));
        }
        constexpr std::size_t kMany = 9;   // at 2^8 blocks a segment, more than two of them
        std::vector<std::uint32_t> many(kMany * kGroupSamples);
        words.groups(3, kMany, many.data());
        check(many == plain_groups(plain, domain_id, 3, kMany), "groups of several segments, 2^" + std::to_string(segment_bits) + " blocks each");
    }
}

void blocks_take_a_key_a_segment(int segment_bits) {
    const WipedStream stream(aes_stream(segment_bits));
    PlainAesStream plain(stream);
    const std::uint64_t last = max_block_index(Cipher::aes256);
    bool lone_agree = true, lanes_agree = true;
    for (const std::uint64_t domain_id : kDomains) {
        for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{63}, std::uint64_t{64}, std::uint64_t{65}, std::uint64_t{128},
                                          (std::uint64_t{1} << 22) - 1, std::uint64_t{1} << 22, std::uint64_t{1} << 40, last}) {
            const Block lone = stream_block(stream, domain_id, index);
            const Block lane = lane_block(stream, domain_id, index);
            for (std::size_t word = 0; word < kBlockWords; ++word) {
                lone_agree &= lone[word] == plain.block(domain_id, 4 * index + word / 4)[word % 4];
                lanes_agree &= lane[word] == plain.word(domain_id, index / kGroupBlocks, kGroupBlocks * word + index % kGroupBlocks);
            }
        }
    }
    check(lone_agree, "lone blocks, segments of 2^" + std::to_string(segment_bits));
    check(lanes_agree, "lanes of groups, segments of 2^" + std::to_string(segment_bits));
}

void every_backend_draws_the_same_words() {
    const WipedStream stream(aes_stream(kShortSegment));
    PlainAesStream plain(stream);
    for (const std::string& backend : available_backends()) {
        for (const std::uint64_t first : {0u, 2u, 3u, 4u, 1023u}) {
            std::vector<std::uint32_t> words(7 * kGroupSamples);
            kernels_by_name(backend).keystream(stream, domain::kLowWords, first, 7, words.data());
            check(words == plain_groups(plain, domain::kLowWords, first, 7), "key stream from group " + std::to_string(first) + " on " + backend);
        }
    }
}

}  // namespace

int main() {
    on_every_implementation(key_expansion_of_fips_197);
    on_every_implementation(keys_side_by_side);
    on_every_implementation(vectors_of_the_standards);
    on_every_implementation(the_s_box_is_the_standards);
    on_every_implementation(any_number_of_blocks);
    on_every_implementation(counter_mode_of_whole_groups);
    keys_are_derived_as_in_rfc_8452();
    keys_of_many_streams_are_derived_as_one();
    keys_differ_by_nonce_and_segment();
    for (const int segment_bits : {kShortSegment, kAesSegmentBits}) {
        words_take_a_key_a_segment(segment_bits);
        blocks_take_a_key_a_segment(segment_bits);
    }
    every_backend_draws_the_same_words();
    return test::summary();
}
