// Float64 variates for any run of samples: 64 bits of each uniform, from the main and the low-word domain.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "hushvec/noise.hpp"

namespace hushvec {

// out[i] = scale * Z of sample first_group * 256 + i, for whole groups. law is gaussian or laplacian.
void float64_noise(const KeyStream& stream, Law law, double scale, std::uint64_t first_group, std::size_t groups, double* out);

}  // namespace hushvec
