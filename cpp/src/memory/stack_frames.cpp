#include "hushvec/stack_frames.hpp"

#include <cstddef>
#include <cstdint>

#include "hushvec/wipe.hpp"

namespace hushvec {
namespace {

// The largest frames of one call are those of half words: the queue of float64 elements takes 12 KiB (noise/open_queue.hpp), the words 4.5, the
// loop 3.5, what calls them 2 (-fstack-usage, GCC 12).
constexpr std::size_t kFrameBytes = 24 * 1024;

}  // namespace

// A wipe within the kernels would keep their cipher's state in memory: it made clip-and-noise on AVX-512 7 to 12 % slower.
[[gnu::noinline]] void wipe_stack_below() {
    std::uint8_t frames[kFrameBytes];
    wipe(frames, sizeof frames);
}

}  // namespace hushvec
