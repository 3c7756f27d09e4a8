#include "clip/part_rows.hpp"

#include <algorithm>

#include "array/staging.hpp"

namespace hushvec {

std::vector<Columns> cut_columns(const std::vector<MatrixView>& parts, std::size_t width) {
    std::vector<Columns> runs;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        for (std::size_t first = 0; first < parts[part].columns; first += width) {
            runs.push_back({part, first, std::min(width, parts[part].columns - first)});
        }
    }
    return runs;
}

bool has_float64(const std::vector<MatrixView>& parts) {
    return std::any_of(parts.begin(), parts.end(), [](const MatrixView& part) { return part.dtype == DType::float64; });
}

std::size_t bytes_to_next(const MatrixView& part, std::size_t rows) {
    const bool direct = part.dtype == DType::float32 && part.rows_are_contiguous();
    return direct ? rows * static_cast<std::size_t>(part.row_stride) : 0;
}

template <class Element>
const Element* PartReader<Element>::run(const MatrixView& part, std::size_t row, std::size_t first, std::size_t count, std::size_t slot) {
    if (part.dtype == dtype_of<Element> && part.rows_are_contiguous()) return reinterpret_cast<const Element*>(part.at(row, first));
    if (copies_.empty()) copies_.resize(slots_ * kStretch);
    Element* copy = copies_.data() + slot * kStretch;
    gather(part, row * part.columns + first, count, copy);
    return copy;
}

template class PartReader<float>;
template class PartReader<double>;

}  // namespace hushvec
