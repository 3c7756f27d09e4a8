#include "clip/part_rows.hpp"

#include <algorithm>
#include <cstring>

#include "array/staging.hpp"
#include "hushvec/clip.hpp"
#include "parallel/threads.hpp"

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

void join_columns(const std::vector<MatrixView>& parts, const MatrixView& out) {
    constexpr std::size_t kPiece = std::size_t{1} << 16;
    const std::size_t item = item_size(out.dtype);
    std::vector<std::byte*> targets(parts.size());
    std::byte* end = out.data;
    for (std::size_t part = 0; part < parts.size(); end += parts[part++].columns * item) targets[part] = end;
    const std::vector<Columns> runs = cut_columns(parts, kPiece);
    parallel_for(runs.size(), kPiece / kCopiesOfASample, [&](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to; ++i) {
            const MatrixView& part = parts[runs[i].part];
            std::byte* const target = targets[runs[i].part] + runs[i].first * item;
            if (part.rows_are_contiguous()) {
                std::memcpy(target, part.at(0, runs[i].first), runs[i].count * item);
            } else {
                for (std::size_t j = 0; j < runs[i].count; ++j) std::memcpy(target + j * item, part.at(0, runs[i].first + j), item);
            }
        }
    });
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
