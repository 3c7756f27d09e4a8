// Generators of AES-256: how far a key goes, what a device is refused, and that no two calls share round keys.
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "host.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/generator.hpp"
#include "hushvec/wiped_stream.hpp"
#include "plain_aes.hpp"

namespace {

using namespace hushvec;
using test::check;
using test::PlainAesStream;

constexpr KeyLimits kThreeNonces = {.aes_nonces = 3};

template <class Error, class Work>
std::string error_of(Work work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

void a_used_up_key_is_replaced() {
    Generator generator(Cipher::aes256, kThreeNonces);
    std::set<std::vector<std::uint32_t>> keys;
    for (std::uint64_t call = 0; call < 8; ++call) {
        const WipedStream stream = generator.reserve();
        check(stream.nonce == call % 3, "nonces begin anew with the fourth call's key");
        keys.insert({stream.key, stream.key + 8});
    }
    check(keys.size() == 8, "every call of a generator keyed by the system has a key of its own");

    Generator seeded(Generator::Key{1}, Cipher::aes256, kThreeNonces);
    for (std::uint64_t call = 0; call < 3; ++call) check(seeded.reserve().nonce == call, "three nonces of a seed");
    for (int again = 0; again < 2; ++again) {
        check(error_of<std::runtime_error>([&] { seeded.reserve(); }) == "all nonces of this generator are used: make a new one",
              "a seeded generator ends with its nonces");
    }
    Generator chacha(Generator::Key{1}, Cipher::chacha20, kThreeNonces);
    for (std::uint64_t call = 0; call < 5; ++call) check(chacha.reserve().nonce == call, "ChaCha has no such limit");
}

// Devices take their nonces from the same count, and may take more than AES has.
void calls_of_devices_do_not_lift_the_limit() {
    Generator generator({}, kThreeNonces);
    for (int call = 0; call < 5; ++call) generator.reserve_for_device();
    for (std::uint64_t call = 0; call < 4; ++call) {
        const std::uint64_t expected = default_cipher() == Cipher::aes256 ? call % 3 : 5 + call;
        check(generator.reserve().nonce == expected, "a key that devices have used up is replaced");
    }
}

void devices_have_chacha_alone() {
    const std::string refusal = "cipher must be chacha20, chacha12 or chacha8 on a device, got aes256";
    Generator chosen(Cipher::aes256), seeded(Generator::Key{1}, Cipher::aes256), open, twelve(Cipher::chacha12);
    for (Generator* generator : {&chosen, &seeded}) {
        check(error_of<std::invalid_argument>([&] { (void)generator->device_cipher(); }) == refusal, "device_cipher of AES-256");
        check(error_of<std::invalid_argument>([&] { generator->reserve_for_device(); }) == refusal, "a device's nonce of AES-256");
        check(error_of<std::invalid_argument>([&] { generator->apart(0); }) == refusal, "a device's stream of AES-256");
        check(generator->reserve().nonce == 0, "a refusal takes no nonce");
    }
    check(open.cipher() == default_cipher() && open.device_cipher() == Cipher::chacha20 && open.apart(0).cipher == Cipher::chacha20,
          "without a choice a device draws from ChaCha20");
    check(twelve.device_cipher() == Cipher::chacha12 && twelve.reserve_for_device().cipher == Cipher::chacha12, "a chosen ChaCha is kept");
    check(default_cipher() == (active_aes_name() == "portable" ? Cipher::chacha20 : Cipher::aes256), "AES-256 where there are instructions for it");
}

void threads_share_no_nonce() {
    constexpr std::size_t kThreads = 4, kCalls = 300;
    Generator seeded(Generator::Key{1}, Cipher::aes256);
    std::vector<std::vector<std::uint64_t>> nonces(kThreads);
    std::vector<std::vector<std::uint32_t>> first_words(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            for (std::size_t call = 0; call < kCalls; ++call) {
                const WipedStream stream = seeded.reserve();
                nonces[i].push_back(stream.nonce);
                first_words[i].push_back(stream_block(stream, domain::kMain, 0)[0]);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    std::set<std::uint64_t> all;
    bool agree = true;
    KeyStream alone;
    alone.cipher = Cipher::aes256;
    alone.key[0] = 1;
    for (std::size_t i = 0; i < kThreads; ++i) {
        for (std::size_t call = 0; call < kCalls; ++call) {
            all.insert(nonces[i][call]);
            if (call % 50 != 0) continue;
            alone.nonce = nonces[i][call];
            agree &= first_words[i][call] == PlainAesStream(alone).word(domain::kMain, 0, 0);
        }
    }
    check(all.size() == kThreads * kCalls && *all.rbegin() == kThreads * kCalls - 1, "threads share no nonce, and leave none out");
    check(agree, "round keys of one call are not those of another");
}

void children_continue_no_seed() {
    Generator generator(Cipher::aes256), seeded(Generator::Key{1}, Cipher::aes256);
    for (int call = 0; call < 5; ++call) generator.reserve();
    const int agrees = test::in_child([&] {
        return generator.reserve().nonce == 0 &&
               error_of<std::runtime_error>([&] { seeded.reserve(); }) ==
                   "this seeded generator belongs to the parent process, which has the same stream: make one in each process";
    });
    check(agrees == 0, "a child draws a key of its own, and continues no seed");
}

}  // namespace

int main() {
    a_used_up_key_is_replaced();
    calls_of_devices_do_not_lift_the_limit();
    devices_have_chacha_alone();
    threads_share_no_nonce();
    if (test::kForks) {
        children_continue_no_seed();
    } else {
        test::skip_without_fork("generators of children");
    }
    return test::summary();
}
