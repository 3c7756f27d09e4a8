#include "privunit/settle_row.hpp"

#include "privunit/component.hpp"
#include "privunit/row_ladder.hpp"

namespace hushvec {

void settle_row(const KeyStream& stream, PrivUnitLaw law, ExactGrid grid, std::uint64_t row, std::span<const float> direction, float* y,
                int first_level) {
    const std::size_t in_group = row % kComponentRows;
    Component components[kComponentRows];
    draw_components(stream, law, row / kComponentRows, in_group + 1, components);
    double squares = 0;
    for (const float x : direction) squares += double{x} * double{x};
    RowLadder ladder(stream, {row * direction.size(), direction, squares, components[in_group], law.threshold}, double{grid.sigma / grid.grid});
    for (std::size_t column = 0; column < direction.size(); ++column) y[column] = static_cast<float>(ladder.round(column, first_level)) * grid.grid;
}

}  // namespace hushvec
