// Round keys of AES-256: in locked memory while a call draws, and nowhere after it.
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/clipped_sum.hpp"
#include "hushvec/discrete.hpp"
#include "hushvec/discrete_noise.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/generator.hpp"
#include "hushvec/key_slot.hpp"
#include "hushvec/keyed_rows.hpp"
#include "hushvec/locked_memory.hpp"
#include "hushvec/privunit.hpp"
#include "hushvec/stack_frames.hpp"
#include "hushvec/wipe.hpp"
#include "hushvec/wiped_stream.hpp"
#include "memory_scan.hpp"
#include "noise_of_laws.hpp"
#include "os/os.hpp"
#include "plain_rows.hpp"
#include "rng/aes_stream.hpp"
#include "rng/blake2b.hpp"

namespace {

using namespace hushvec;
using test::check;
using test::in_child;
using test::kLaws;
using test::make_noise;
using test::times_in_memory;

constexpr std::size_t kRoundKeyBytes = 4 * kAesBlockWords;
constexpr std::size_t kKeyBytes = 4 * kAesKeyWords;

// What nobody may find after a call: the derived key in pieces of the eight bytes that a block of the derivation gives, and each round
// key as it is and, as the portable implementation keeps it, in planes of bits.
struct Secrets {
    std::vector<test::Turned<8>> pieces;
    std::vector<test::Turned<kRoundKeyBytes>> round_keys;

    explicit Secrets(const AesRoundKeys& keys) {
        for (std::size_t word = 0; word < kAesKeyWords; word += 2) pieces.push_back(test::turned<8>(keys.words + word));
        for (std::size_t round = 0; round <= kAesRounds; ++round) {
            const std::uint32_t* key = keys.words + kAesBlockWords * round;
            round_keys.push_back(test::turned<kRoundKeyBytes>(key));
            round_keys.push_back(turned_planes(round_keys.back()));
        }
    }

    std::size_t found() const {
        return times_in_memory(std::span<const test::Turned<8>>(pieces)) + times_in_memory(std::span<const test::Turned<kRoundKeyBytes>>(round_keys));
    }

private:
    // Bit i of byte j becomes bit j of the 16 bits of plane i; turned bits stay turned.
    static test::Turned<kRoundKeyBytes> turned_planes(const test::Turned<kRoundKeyBytes>& key) {
        test::Turned<kRoundKeyBytes> planes{};
        for (std::size_t i = 0; i < 8; ++i) {
            for (std::size_t j = 0; j < kRoundKeyBytes; ++j) planes[2 * i + j / 8] |= static_cast<std::uint8_t>(((key[j] >> i) & 1) << (j % 8));
        }
        return planes;
    }
};

// Those of one segment, which leave nothing behind.
Secrets secrets_of_segment(const KeyStream& stream, std::uint64_t segment) {
    AesRoundKeys keys;
    derive_round_keys(stream, segment, keys);
    const Secrets secrets(keys);
    wipe(&keys, sizeof keys);
    wipe_stack_below();
    return secrets;
}

void round_keys_lie_in_locked_memory() {
    Generator generator(Cipher::aes256);
    test::Turned<kKeyBytes> derived{};
    std::vector<test::Turned<kRoundKeyBytes>> round_keys;
    {
        const WipedStream stream = generator.reserve();
        const MemoryReport report = memory_report();
        check(report.key_bytes > 0 && report.locked_key_bytes == report.key_bytes, "round keys lie in locked pages");
        derived = test::turned<kKeyBytes>(stream.round_keys->words);
        for (std::size_t round = 2; round <= kAesRounds; ++round) {
            round_keys.push_back(test::turned<kRoundKeyBytes>(stream.round_keys->words + kAesBlockWords * round));
        }
        check(times_in_memory(derived) == 1, "the derived key lies in its slot and nowhere else");
        check(times_in_memory(round_keys.back()) >= 1, "the scan finds a round key while the stream lives");
        if (test::kForks) check(in_child([&] { return times_in_memory(derived) == 0; }) == 0, "a child has no derived key of its parent");
    }
    check(times_in_memory(derived) == 0, "the derived key goes with the call");
    check(times_in_memory(std::span<const test::Turned<kRoundKeyBytes>>(round_keys)) == 0, "round keys go with the call");
}

void nothing_is_left_after_noise() {
    Generator generator(Cipher::aes256);
    for (const Law law : kLaws) {   // one at a time: the stack frame of one kernel overwrites another's
        for (const DType dtype : {DType::float32, DType::float64}) {
            auto stream = std::make_unique<const WipedStream>(generator.reserve_key());
            const Secrets secrets = secrets_of_segment(*stream, 0);
            make_noise(*stream, law, dtype);
            check(secrets.found() > 0, "the scan finds round keys while the stream lives");
            stream.reset();
            check(secrets.found() == 0, "round keys go with the call, after it made noise");
        }
    }
}

// Other draws have frames of their own, of which the deepest decide how much of the stack has to be wiped.
void nothing_is_left_after_other_draws() {
    constexpr std::size_t rows = 128, columns = 768, count = rows * columns;
    static std::vector<double> x(count), y(count);
    static std::vector<std::int64_t> whole(count, 3);
    const auto of = [](std::vector<double>& values, DType dtype) {
        return MatrixView{reinterpret_cast<std::byte*>(values.data()), dtype, rows, columns, static_cast<std::ptrdiff_t>(columns * item_size(dtype)),
                          static_cast<std::ptrdiff_t>(item_size(dtype))};
    };
    std::vector<std::pair<std::string, std::function<void(const KeyStream&)>>> draws;
    for (const bool half_words : {false, true}) {
        for (const DType dtype : {DType::float32, DType::float64}) {
            for (const Law law : {Law::gaussian, Law::laplacian}) {
                draws.emplace_back("exact noise", [=](const KeyStream& stream) {
                    WipedKey key(stream, KeyStream{}, stream.nonce, Cipher::aes256, half_words);
                    key.round_keys = stream.round_keys;
                    clip_and_noise(key, of(x, dtype), 1.0, 0.7, law, true, of(y, dtype));
                });
            }
        }
    }
    for (const DiscreteLaw law : {DiscreteLaw::gaussian, DiscreteLaw::laplacian}) {
        for (const double scale : {3.0, 0x1p30}) {
            draws.emplace_back("discrete noise", [=](const KeyStream& stream) { fill_discrete(stream, law, scale, whole.data(), count); });
            draws.emplace_back("whole rows", [=](const KeyStream& stream) {
                clip_and_add_discrete(stream, whole.data(), rows, columns, 5.0, law, scale, whole.data());
            });
        }
    }
    draws.emplace_back("a sample", [](const KeyStream& stream) { poisson_sample(stream, count, std::uint64_t{1} << 62); });
    draws.emplace_back("privunit", [=](const KeyStream& stream) { privunit(stream, of(x, DType::float32), {0.5, 0.25}, 0.7, of(y, DType::float32)); });
    draws.emplace_back("whole sums", [](const KeyStream& stream) { release_whole_sums(whole.data(), count, 1.0, 300.0, stream, y.data()); });
    Generator generator(Cipher::aes256);
    for (const auto& [name, draw] : draws) {
        auto stream = std::make_unique<const WipedStream>(generator.reserve_key());
        const Secrets secrets = secrets_of_segment(*stream, 0);
        draw(*stream);
        check(secrets.found() > 0, "the scan finds round keys while the stream lives");
        stream.reset();
        check(secrets.found() == 0, "round keys go with the call, after " + name);
    }
}

// A segment has 256 blocks here, four groups: 100,000 samples take 98 segments.
void keys_of_later_segments_go_too() {
    Generator generator(Cipher::aes256, {.aes_segment_bits = 8});
    for (const DType dtype : {DType::float32, DType::float64}) {
        auto stream = std::make_unique<const WipedStream>(generator.reserve_key());
        const Secrets last = secrets_of_segment(*stream, 97), early = secrets_of_segment(*stream, 3);
        make_noise(*stream, Law::gaussian, dtype);
        stream.reset();
        check(last.found() == 0 && early.found() == 0, "keys of later segments go with the call");
    }
}

// The first row, whose slot later rows take, and the last.
void keys_of_the_rows_of_a_job_go_too() {
    constexpr std::size_t rows = 40, columns = 300;
    constexpr std::array<std::uint8_t, 32> job_key = {1, 2, 3};
    std::vector<std::uint8_t> places(rows * kRowPlaceBytes);
    for (std::size_t row = 0; row < rows; ++row) places[row * kRowPlaceBytes] = static_cast<std::uint8_t>(row);
    std::vector<float> x = test::rows_of(rows * columns), y(x.size());
    const MatrixView from = test::view_of(x, DType::float32, rows, columns), to = test::view_of(y, DType::float32, rows, columns);
    const auto secrets_of_row = [&](std::size_t row) {
        WipedKey stream;
        const Blake2bKey key(job_key);
        active_kernels().row_keys({key.state, &places[row * kRowPlaceBytes], from.at(row, 0), columns * sizeof(float), 1, &stream.key});
        return secrets_of_segment(stream, 0);
    };
    const std::vector<Secrets> secrets = {secrets_of_row(0), secrets_of_row(rows - 1)};
    const RowKeySource source = {job_key, places.data(), Cipher::aes256};
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        clip_and_noise_keyed(source, from, 1.0, 0.7, law, to);
        for (const Secrets& of_row : secrets) check(of_row.found() == 0, "round keys of a row go with the call");
    }
    privunit_keyed(source, from, {0.5, 0.25}, 0.7, to);
    for (const Secrets& of_row : secrets) check(of_row.found() == 0, "round keys of a row go with the call of privunit");
}

void slots_last_as_long_as_their_streams() {
    const std::size_t page = os::page_size();
    const std::size_t slots_of_a_page = page / 256;
    Generator generator(Cipher::aes256), chacha(Cipher::chacha20);
    generator.reserve();
    const MemoryReport before = memory_report();
    {
        std::vector<std::unique_ptr<WipedStream>> streams;
        const auto draw = [&] { streams.push_back(std::make_unique<WipedStream>(generator.reserve_key())); };
        while (streams.size() < slots_of_a_page) draw();
        check(memory_report().key_slots == before.key_slots, "round keys are no keys of generators");
        check(memory_report().key_bytes == before.key_bytes, "a page has a slot for every 256 bytes");
        draw();
        check(memory_report().key_bytes == before.key_bytes + page, "one more takes another page");
        const AesRoundKeys* last = streams.back()->round_keys;
        streams.pop_back();
        draw();
        check(streams.back()->round_keys == last, "a slot that was given back is taken again");
        check(WipedStream(chacha.reserve_key()).round_keys == nullptr, "ChaCha takes none");
    }
    const MemoryReport after = memory_report();
    check(after.key_bytes == before.key_bytes + page && after.locked_key_bytes == after.key_bytes, "pages stay, and are locked");

    const AesRoundKeys zero{};
    std::vector<std::unique_ptr<RoundKeySlot>> slots;
    while (slots.size() < 2 * slots_of_a_page) {   // all of both pages, most of them used before
        slots.push_back(std::make_unique<RoundKeySlot>());
        check(std::memcmp(&slots.back()->taken(), &zero, sizeof zero) == 0, "a slot that comes back is empty");
    }
    check(memory_report().key_bytes == after.key_bytes, "slots that came back are all there are");
    slots.clear();

    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] { for (int round = 0; round < 500; ++round) generator.reserve(); });
    }
    for (std::thread& thread : threads) thread.join();
    check(memory_report().key_bytes == after.key_bytes, "threads take and give back");
}

}  // namespace

int main() {
    slots_last_as_long_as_their_streams();
    if (test::kScans) {
        round_keys_lie_in_locked_memory();
        nothing_is_left_after_noise();
        nothing_is_left_after_other_draws();
        keys_of_later_segments_go_too();
        keys_of_the_rows_of_a_job_go_too();
    }
    return test::summary();
}
