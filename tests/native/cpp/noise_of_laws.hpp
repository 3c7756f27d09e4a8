// A call's worth of noise of each law.
#pragma once

#include <cstddef>
#include <vector>

#include "hushvec/array.hpp"
#include "hushvec/noise.hpp"

namespace hushvec::test {

inline constexpr Law kLaws[] = {Law::gaussian, Law::laplacian, Law::l2_laplace};

inline void make_noise(const KeyStream& stream, Law law, DType dtype) {
    std::vector<double> out(100000);
    fill_noise(stream, law, 1.0, {reinterpret_cast<std::byte*>(out.data()), dtype, 1, out.size(), 0, static_cast<std::ptrdiff_t>(item_size(dtype))});
}

}  // namespace hushvec::test
