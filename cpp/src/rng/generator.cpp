#include "hushvec/generator.hpp"

#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>

namespace hushvec {
namespace {

// Counts the forks on the way to this process; pids alone can repeat.
std::atomic<std::uint32_t> fork_count{0};

// One lock for all generators, held across fork(): a child never inherits it locked by a thread it does not have.
std::mutex reserve_mutex;

void register_fork_handlers() {
    static const int failed = pthread_atfork(
        [] { reserve_mutex.lock(); },
        [] { reserve_mutex.unlock(); },
        [] {
            fork_count.fetch_add(1, std::memory_order_relaxed);
            reserve_mutex.unlock();
        });
    if (failed != 0) throw std::runtime_error("pthread_atfork failed: a forked child could repeat the key stream");
}

// The pid catches children made by clone() without the handlers.
std::uint64_t process_identity() {
    return (std::uint64_t{fork_count.load(std::memory_order_relaxed)} << 32) | static_cast<std::uint32_t>(getpid());
}

Generator::Key key_from_os() {
    Generator::Key key;
    std::size_t filled = 0;
    while (filled < key.size()) {
        const ssize_t got = getrandom(key.data() + filled, key.size() - filled, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw std::runtime_error(std::string("the operating system gave no random key: ") + std::strerror(errno));
        filled += static_cast<std::size_t>(got);
    }
    return key;
}

int checked_rounds(int rounds) {
    if (rounds == 20 || rounds == 12 || rounds == 8) return rounds;
    throw std::invalid_argument("rounds must be 20, 12 or 8, got " + std::to_string(rounds));
}

void load_key(KeyStream& stream, const Generator::Key& key) {
    for (std::size_t word = 0; word < 8; ++word) {
        stream.key[word] = 0;
        for (std::size_t byte = 0; byte < 4; ++byte) stream.key[word] |= std::uint32_t{key[4 * word + byte]} << (8 * byte);
    }
}

constexpr std::uint64_t kFirstNonceApart = std::uint64_t{1} << 63;
constexpr int kNonceBitsOfAPlace = 40;

void wipe(void* memory, std::size_t size) { explicit_bzero(memory, size); }

}  // namespace

Generator::Generator(int rounds) : rounds_(checked_rounds(rounds)), source_(KeySource::os) {
    register_fork_handlers();
    next_.rounds = rounds_;
    process_ = process_identity();
    Key key = key_from_os();
    load_key(next_, key);
    wipe(key.data(), key.size());
}

Generator::Generator(const Key& seed_key, int rounds) : rounds_(checked_rounds(rounds)), source_(KeySource::seed) {
    register_fork_handlers();
    next_.rounds = rounds_;
    process_ = process_identity();
    load_key(next_, seed_key);
}

Generator::~Generator() { wipe(&next_, sizeof next_); }

void Generator::follow_fork() {
    const std::uint64_t here = process_identity();
    if (here == process_) return;
    if (source_ == KeySource::seed) {
        throw std::runtime_error("this seeded generator belongs to the parent process, which has the same stream: make one in each process");
    }
    Key key = key_from_os();
    load_key(next_, key);
    wipe(key.data(), key.size());
    next_.nonce = 0;
    process_ = here;
}

KeyStream Generator::reserve() {
    const std::lock_guard<std::mutex> lock(reserve_mutex);
    follow_fork();
    if (next_.nonce == kFirstNonceApart) throw std::runtime_error("all nonces of this generator are used: make a new one");
    const KeyStream stream = next_;
    ++next_.nonce;
    return stream;
}

KeyStream Generator::apart(std::uint64_t place) {
    if (source_ == KeySource::os) return Generator(rounds_).reserve();
    const std::lock_guard<std::mutex> lock(reserve_mutex);
    follow_fork();
    KeyStream stream = next_;
    stream.nonce = kFirstNonceApart + (place << kNonceBitsOfAPlace);
    return stream;
}

}  // namespace hushvec
