// The CUDA kernels' bodies for unit rows, for NaN and Inf and for int8 values, run on the host thread by thread. Unit rows have the CPU
// core's bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"
#include "device/bad_row_body.hpp"
#include "device/int8_body.hpp"
#include "device/unit_rows_body.hpp"
#include "device_rows.hpp"
#include "hushvec/unit_rows.hpp"

namespace {

using namespace hushvec;
using namespace hushvec::cuda;
using namespace hushvec::test;

constexpr Report kEmpty = {kNoRow, 0, 0};

template <class Stored>
Stored special(double value) {
    if constexpr (sizeof(Stored) > 2) {
        return static_cast<Stored>(value);
    } else {
        const std::uint16_t exponent = std::is_same_v<Stored, Float16> ? 0x7C00 : 0x7F80;
        return {static_cast<std::uint16_t>(exponent | (std::isnan(value) ? 1 : 0) | (value < 0 ? 0x8000 : 0))};
    }
}

template <class Stored>
const std::vector<Stored>& specials() {
    static const std::vector<Stored> all = {special<Stored>(std::numeric_limits<double>::quiet_NaN()),
                                            special<Stored>(std::numeric_limits<double>::infinity()),
                                            special<Stored>(-std::numeric_limits<double>::infinity())};
    return all;
}

// Elements between two stretches of NaN: whoever reads them finds a bad row, and whoever writes to them is seen.
template <class Stored>
class Guarded {
public:
    static constexpr std::size_t kGuard = 64;

    explicit Guarded(const std::vector<Stored>& inside, std::size_t shift = 0)
        : first_(kGuard + shift), size_(inside.size()), memory_(size_ + 2 * kGuard + shift, specials<Stored>()[0]) {
        std::copy(inside.begin(), inside.end(), data());
    }
    Stored* data() { return memory_.data() + first_; }
    std::vector<Stored> inside() { return {data(), data() + size_}; }
    bool intact() {
        const std::vector<Stored> fresh(memory_.size(), specials<Stored>()[0]);
        return std::memcmp(memory_.data(), fresh.data(), first_ * sizeof(Stored)) == 0 &&
               std::memcmp(data() + size_, fresh.data(), kGuard * sizeof(Stored)) == 0;
    }

private:
    std::size_t first_, size_;
    std::vector<Stored> memory_;
};

// Rows of every size that the dtype has: zeros, subnormal, tiny, ordinary, huge, the largest, and both ends of the range in one row.
template <class Stored>
std::vector<Stored> rows_of_every_size(std::size_t rows, std::size_t columns) {
    using Value = Wide<Stored>;
    constexpr DType dtype = kDType<Stored>;
    const int least = dtype == DType::float64 ? -1074 : (dtype == DType::float32 ? -149 : (dtype == DType::float16 ? -24 : -133));
    const int most = dtype == DType::float64 ? 1023 : (dtype == DType::float16 ? 15 : 127);
    const int exponents[] = {0, least + 3, least + 12, 0, most, most - 1, -3, least / 2, most / 2, 2};
    std::vector<Stored> x(rows * columns);
    std::uint64_t state = columns;
    for (std::size_t i = 0; i < x.size(); ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const std::size_t row = i / columns;
        const double fraction = std::ldexp(static_cast<double>(static_cast<std::int64_t>(state)), -63);
        int exponent = exponents[row % std::size(exponents)];
        if (row % 11 == 9) exponent = i % columns == 0 ? most : 0;
        if (row % 11 == 10) exponent = i % 3 == 0 ? most : (i % 3 == 1 ? least + 4 : 0);
        if (row % 7 != 3) x[i] = narrowed<Stored>(static_cast<Value>(std::ldexp(fraction, exponent)));
        else x[i] = narrowed<Stored>(static_cast<Value>(i % 2 == 0 ? 0.0 : -0.0));
    }
    if (rows > 1) std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(columns), columns, narrowed<Stored>(std::numeric_limits<Value>::max()));
    return x;
}

template <class Stored>
void run_unit_rows(const Stored* x, Stored* out, std::size_t rows, std::size_t columns, Report* report) {
    const UnitRowsBody<Stored> body = {x, out, rows, columns, report};
    UnitRowsMemory memory;
    for (std::size_t block = (rows + kUnitRows - 1) / kUnitRows; block-- > 0;) {
        std::memset(static_cast<void*>(&memory), 0xFF, sizeof memory);   // nobody sets up shared memory
        body.run(block, memory, HostTeam{kUnitThreads});
    }
}

template <class Stored>
void unit_rows_equal_the_core(std::size_t rows, std::size_t columns) {
    const std::string what = std::string(name_of(kDType<Stored>)) + " " + std::to_string(rows) + " x " + std::to_string(columns);
    std::vector<Stored> x = rows_of_every_size<Stored>(rows, columns), expected(x.size());
    hushvec::unit_rows(view_of(x, rows, columns), view_of(expected, rows, columns));
    Report report = kEmpty;
    Guarded<Stored> from(x), out(std::vector<Stored>(x.size(), specials<Stored>()[1]));
    run_unit_rows(from.data(), out.data(), rows, columns, &report);
    check(same_bits(out.inside(), expected), "unit rows, " + what);
    check(same_bits(from.inside(), x) && out.intact() && from.intact(), "nothing is written outside the unit rows, " + what);
    check(report.first_bad_row == kNoRow, "no bad row, " + what);
    run_unit_rows<Stored>(from.data(), from.data(), rows, columns, nullptr);
    check(same_bits(from.inside(), expected) && from.intact(), "unit rows in place, " + what);
}

// NaN or Inf anywhere in a row: it is reported and zero, and the others have their bits.
template <class Stored>
void bad_rows_of_unit_rows(std::size_t columns) {
    constexpr std::size_t rows = 19;
    const std::string what = std::string(name_of(kDType<Stored>)) + " rows of " + std::to_string(columns);
    bool bits = true, reported = true, quiet = true;
    for (const std::size_t row : {0u, 7u, 8u, 18u}) {
        for (const std::size_t column : {std::size_t{0}, columns / 2, columns - 1}) {
            for (const Stored bad : specials<Stored>()) {
                std::vector<Stored> x = rows_of_every_size<Stored>(rows, columns), expected(x.size());
                hushvec::unit_rows(view_of(x, rows, columns), view_of(expected, rows, columns));
                for (const std::size_t each : {row, rows - 1}) {
                    x[each * columns + column] = bad;
                    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(each * columns), columns, Stored{});
                }
                Report report = kEmpty;
                std::vector<Stored> out(x.size(), special<Stored>(1.0 / 0.0));
                run_unit_rows(x.data(), out.data(), rows, columns, &report);
                bits &= same_bits(out, expected);
                reported &= report.first_bad_row == row;
                run_unit_rows<Stored>(x.data(), x.data(), rows, columns, nullptr);
                quiet &= same_bits(x, expected);
            }
        }
    }
    check(bits, "bad rows are zeros and the others have their bits, " + what);
    check(reported, "the first bad row is reported, " + what);
    check(quiet, "bad rows in place, without a report, " + what);
}

template <class Stored>
std::uint64_t bad_row_of(Guarded<Stored>& x, std::size_t count, std::size_t columns, std::size_t blocks) {
    Report report = kEmpty;
    const BadRowBody<Stored> body = {x.data(), count, columns, &report};
    for (std::size_t block = blocks; block-- > 0;) body.run(block, blocks, HostTeam{kBadRowThreads});
    return report.first_bad_row;
}

// Every place of a small array, with a bad element before, at and behind it, at every alignment.
template <class Stored>
void every_bad_element_is_found() {
    constexpr std::size_t rows = 5, columns = 13, count = rows * columns;
    const std::vector<Stored> fine = rows_of_every_size<Stored>(rows, columns);
    bool found = true, none = true, untouched = true;
    for (std::size_t shift = 0; shift < 16 / sizeof(Stored); ++shift) {
        Guarded<Stored> clean(fine, shift);
        none &= bad_row_of(clean, count, columns, 1) == kNoRow && bad_row_of(clean, count, columns, 3) == kNoRow;
        for (std::size_t place = 0; place < count; ++place) {
            for (const Stored bad : specials<Stored>()) {
                std::vector<Stored> x = fine;
                x[place] = x[std::max(place, count - 3)] = bad;
                Guarded<Stored> memory(x, shift);
                found &= bad_row_of(memory, count, columns, 1) == place / columns;
                untouched &= memory.intact() && same_bits(memory.inside(), x);
            }
        }
    }
    check(found, std::string("each bad element is found, ") + name_of(kDType<Stored>));
    check(none, std::string("finite rows between NaN, ") + name_of(kDType<Stored>));
    check(untouched, std::string("nothing is written, ") + name_of(kDType<Stored>));
}

// Long enough that blocks stride: the first of many bad rows, whichever block comes to it.
template <class Stored>
void the_first_of_many_bad_rows() {
    for (const std::size_t columns : {std::size_t{1}, std::size_t{300}, std::size_t{10007}}) {
        const std::size_t rows = 60021 / columns, count = rows * columns;
        for (const std::size_t first : {std::size_t{0}, count / 3, count / 2, count - 1}) {
            std::vector<Stored> x = rows_of_every_size<Stored>(rows, columns);
            for (std::size_t i = first; i < count; i += 1 + i % 2 * 77) x[i] = specials<Stored>()[i % 3];
            bool found = true;
            for (const std::size_t shift : {0u, 1u}) {   // by packs, and one by one
                Guarded<Stored> memory(x, shift);
                for (const std::size_t blocks : {1u, 2u, 7u}) found &= bad_row_of(memory, count, columns, blocks) == first / columns;
            }
            check(found, std::string("the first bad row, ") + name_of(kDType<Stored>) + ", element " + std::to_string(first) + " of rows of " +
                             std::to_string(columns));
        }
    }
}

// Every block strides over its own numbers; nothing behind the last is written.
template <class Stored>
void whole_numbers_saturate() {
    for (const std::size_t blocks : {1u, 3u}) {
        std::vector<Stored> numbers;
        std::vector<std::int8_t> expected, out(2003, 99);
        for (int n = -1000; n <= 1000; ++n) {
            numbers.push_back(narrowed<Stored>(static_cast<Wide<Stored>>(n)));
            expected.push_back(static_cast<std::int8_t>(std::clamp(n, -127, 127)));
        }
        expected.resize(out.size(), 99);
        const Int8Body<Stored> body = {numbers.data(), out.data(), numbers.size()};
        for (std::size_t block = 0; block < blocks; ++block) body.run(block, blocks, HostTeam{kInt8Threads});
        check(out == expected, std::string("int8 values, ") + name_of(kDType<Stored>));
    }
}

template <class Stored>
void all_of() {
    whole_numbers_saturate<Stored>();
    for (std::size_t columns = 1; columns <= 70; ++columns) unit_rows_equal_the_core<Stored>(23, columns);
    for (const std::size_t columns : {255u, 256u, 257u, 384u, 768u, 1000u, 1536u, 8193u}) unit_rows_equal_the_core<Stored>(23, columns);
    for (const std::size_t rows : {1u, 7u, 8u, 9u}) unit_rows_equal_the_core<Stored>(rows, 100);
    unit_rows_equal_the_core<Stored>(1, 70001);
    for (const std::size_t columns : {1u, 31u, 33u, 100u}) bad_rows_of_unit_rows<Stored>(columns);
    every_bad_element_is_found<Stored>();
    the_first_of_many_bad_rows<Stored>();
}

}  // namespace

int main() {
    all_of<float>();
    all_of<double>();
    all_of<Float16>();
    all_of<Bfloat16>();
    return test::summary();
}
