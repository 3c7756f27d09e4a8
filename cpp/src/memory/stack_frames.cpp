#include "hushvec/stack_frames.hpp"

#include <cstddef>
#include <cstdint>

#include "hushvec/wipe.hpp"

namespace hushvec {
namespace {

// The largest frame of a kernel takes 14.5 KiB (AVX-512: words and the queue of half_word_kernels.hpp), what calls it 2.5, what it calls 2.5
// (-fstack-usage, GCC 12).
constexpr std::size_t kFrameBytes = 20 * 1024;

}  // namespace

// A wipe within the kernels would keep their cipher's state in memory: it made clip-and-noise on AVX-512 7 to 12 % slower.
[[gnu::noinline]] void wipe_stack_below() {
    std::uint8_t frames[kFrameBytes];
    wipe(frames, sizeof frames);
}

}  // namespace hushvec
