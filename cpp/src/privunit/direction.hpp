// The direction of a row as integers: X_j = rint(x_j 2^21 / |x|), of docs/format.md section 8.
//
// Small integers make everything after them exact: |X|^2 is an exact double, and float32 holds every X. The direction moves by
// less than 2^-22 an element, which no noise of this mechanism shows.
#pragma once

#include <cstddef>
#include <vector>

#include "hushvec/array.hpp"

namespace hushvec {

class Directions {
public:
    explicit Directions(const MatrixView& x);

    // Writes X of a row, zeros where it has no direction. False for a row with NaN or Inf, of which nothing can be used. Norm and elements
    // are those of one reading of the row, which another thread may be writing to.
    bool find(std::size_t row, float* direction);

private:
    double norm_of_wide(std::size_t row);

    const MatrixView x_;
    std::vector<double> wide_;     // a float64 row, scaled where its squares overflow
};

}  // namespace hushvec
