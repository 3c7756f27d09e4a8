// Runs of elements of the rows of several parts, as float32 or float64 memory: where they lie, or copied out of any strides and dtype.
#pragma once

#include <cstddef>
#include <vector>

#include "hushvec/array.hpp"

namespace hushvec {

inline constexpr std::size_t kStretch = 8192;   // docs/format.md section 7

// A row's element in these passes is about this much less work than the sample that parallel_for counts in.
inline constexpr std::size_t kElementsOfASample = 4;

inline constexpr std::size_t kCopiesOfASample = 4;   // and so is a copied one

// A run of columns of one part.
struct Columns {
    std::size_t part;
    std::size_t first;
    std::size_t count;
};

// All columns of all parts, cut into runs of at most `width`.
std::vector<Columns> cut_columns(const std::vector<MatrixView>& parts, std::size_t width);

bool has_float64(const std::vector<MatrixView>& parts);

// From `rows` rows to as many that follow them, 0 where they are not read where they lie.
std::size_t bytes_to_next(const MatrixView& part, std::size_t rows);

// Element is float for float32, float16 and bfloat16 parts, double for float64 ones. Holds copies of up to `slots` runs; one reader serves one thread.
template <class Element>
class PartReader {
public:
    explicit PartReader(std::size_t slots) : slots_(slots) {}

    // The elements stay until the slot is used again.
    const Element* run(const MatrixView& part, std::size_t row, std::size_t first, std::size_t count, std::size_t slot = 0);

private:
    std::size_t slots_;
    std::vector<Element> copies_;   // of kStretch elements each
};

}  // namespace hushvec
