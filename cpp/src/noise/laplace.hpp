// A Laplace variate from one key-stream word, in float32 lanes: -ln u with the sign of bit 0.
//
// u is the other 31 bits. The word goes into the logarithm with its sign bit left in place, which stays inside
// the interval of u that the 31 bits stand for. minus_two_log gives twice the magnitude; callers halve the scale.
#pragma once

#include "lanes/inline.hpp"
#include "noise/box_muller.hpp"

namespace hushvec {

template <class V>
HUSHVEC_INLINE typename V::F32 with_laplace_sign(typename V::F32 magnitude, typename V::U32 word) {
    return V::flip_sign(magnitude, V::template shift_left<31>(word));
}

}  // namespace hushvec
