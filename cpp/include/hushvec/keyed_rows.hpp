// Releases in which every row has a key stream of its own: docs/format.md section 10.
//
// The stream is keyed by BLAKE2b of the row's place and of the very bytes that the kernel reads. Two rows with one stream are
// therefore one row: its result is the same again, and nothing new is released. Which other rows a call has does not matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hushvec/array.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/noise.hpp"
#include "hushvec/privunit.hpp"

namespace hushvec {

// What the rows' streams are made from: a secret, and 40 bytes for each row, one after the other.
// Nonce 0.
struct RowKeySource {
    std::array<std::uint8_t, 32> key;
    const std::uint8_t* places;
    Cipher cipher = Cipher::chacha20;
    bool half_words = false;
};

// clip_and_noise with exact rounding, each row as row 0 of a call with its own stream. x and out are flat and disjoint, and of out
// a part may be written when the call throws. Throws std::invalid_argument (clip_norm, sigma, Law::l2_laplace, layout) or NonFiniteRow.
void clip_and_noise_keyed(const RowKeySource& source, const MatrixView& x, double clip_norm, double sigma, Law law, const MatrixView& out);

// privunit, likewise.
void privunit_keyed(const RowKeySource& source, const MatrixView& x, PrivUnitLaw law, double sigma, const MatrixView& out);

}  // namespace hushvec
