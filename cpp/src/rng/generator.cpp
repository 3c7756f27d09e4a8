#include "hushvec/generator.hpp"

#include <stdexcept>

#include "hushvec/dispatch.hpp"
#include "memory/fork_lock.hpp"
#include "os/os.hpp"

namespace hushvec {
namespace {

void load_key(KeyStream& stream, const Generator::Key& key) {
    for (std::size_t word = 0; word < 8; ++word) {
        stream.key[word] = 0;
        for (std::size_t byte = 0; byte < 4; ++byte) stream.key[word] |= std::uint32_t{key[4 * word + byte]} << (8 * byte);
    }
}

constexpr std::uint64_t kFirstNonceApart = std::uint64_t{1} << 63;
constexpr int kNonceBitsOfAPlace = 40;

}  // namespace

Generator::Generator(std::optional<Cipher> cipher, KeyLimits limits)
    : cipher_(cipher.value_or(default_cipher())), chosen_(cipher.has_value()), limits_(limits), source_(KeySource::os),
      half_words_(true) {
    register_fork_handlers();
    draw_key();
}

Generator::Generator(const Key& seed_key, Cipher cipher, KeyLimits limits, bool half_words)
    : cipher_(cipher), chosen_(true), limits_(limits), source_(KeySource::seed), half_words_(half_words) {
    register_fork_handlers();
    load_key(slot_->stream, seed_key);
    slot_->stream.segment_bits = limits_.aes_segment_bits;
    slot_->owner = process_identity();
}

void Generator::draw_key() {
    os::fill_with_random_bytes(slot_->stream.key, sizeof slot_->stream.key);
    slot_->stream.nonce = 0;
    slot_->stream.segment_bits = limits_.aes_segment_bits;
    slot_->owner = process_identity();
}

// A child finds its slot wiped, or the parent's name in it.
void Generator::follow_fork() {
    if (slot_->owner == process_identity()) return;
    if (source_ == KeySource::seed) {
        throw std::runtime_error("this seeded generator belongs to the parent process, which has the same stream: make one in each process");
    }
    draw_key();
}

Cipher Generator::device_cipher() const {
    if (cipher_ != Cipher::aes256) return cipher_;
    if (chosen_) throw std::invalid_argument("cipher must be chacha20, chacha12 or chacha8 on a device, got aes256");
    return Cipher::chacha20;
}

WipedKey Generator::next_key(Cipher cipher, bool half_words, std::uint64_t nonces) {
    WipedKey fresh;   // stays zero with a seed, whose streams can be repeated
    if (source_ == KeySource::os) os::fill_with_random_bytes(fresh.key, sizeof fresh.key);
    const std::lock_guard<Mutex> lock(fork_lock());
    follow_fork();
    KeyStream& next = slot_->stream;
    if (next.nonce + nonces > (cipher == Cipher::aes256 ? limits_.aes_nonces : kFirstNonceApart)) {
        if (source_ == KeySource::seed) throw std::runtime_error("all nonces of this generator are used: make a new one");
        draw_key();
    }
    next.nonce += nonces;
    return WipedKey(next, fresh, next.nonce - nonces, cipher, half_words);
}

WipedKey Generator::apart(std::uint64_t place) {
    const Cipher cipher = device_cipher();
    if (source_ == KeySource::os) return Generator(cipher).reserve_key();
    const std::lock_guard<Mutex> lock(fork_lock());
    follow_fork();
    return WipedKey(slot_->stream, KeyStream{}, kFirstNonceApart + (place << kNonceBitsOfAPlace), cipher);
}

}  // namespace hushvec
