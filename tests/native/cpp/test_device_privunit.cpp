// PrivUnitG's kernel bodies run on the host, thread by thread, with the steps that the host takes after them: the CPU core's bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"
#include "device/privunit_body.hpp"
#include "device_rows.hpp"
#include "hushvec/clip.hpp"
#include "privunit/component.hpp"
#include "privunit/settle_row.hpp"

namespace {

using namespace hushvec;
using namespace hushvec::cuda;
using namespace hushvec::test;

// An output between two stretches that nothing may write to.
template <class Stored>
class Guarded {
public:
    explicit Guarded(const std::vector<Stored>& inside) : memory_(inside.size() + 2 * kGuard) {
        std::memset(static_cast<void*>(memory_.data()), kMark, memory_.size() * sizeof(Stored));
        std::copy(inside.begin(), inside.end(), data());
    }
    Stored* data() { return memory_.data() + kGuard; }
    std::vector<Stored> inside() const { return {memory_.begin() + kGuard, memory_.end() - kGuard}; }
    bool intact() const { return marked(memory_.data()) && marked(memory_.data() + memory_.size() - kGuard); }

private:
    static constexpr int kMark = 0xA5;
    static constexpr std::ptrdiff_t kGuard = 512;
    static bool marked(const Stored* guard) {
        const auto* bytes = reinterpret_cast<const unsigned char*>(guard);
        return std::all_of(bytes, bytes + kGuard * static_cast<std::ptrdiff_t>(sizeof(Stored)), [](unsigned char byte) { return byte == kMark; });
    }
    std::vector<Stored> memory_;
};

// One call: its stream and law, what it makes of rows, and what the tests change about it.
struct Call {
    KeyStream stream = test_stream(Cipher::chacha12);
    PrivUnitLaw law = privunit_law(6.0);
    PrivUnitTrial trial = {};
    std::vector<std::size_t> undecided_components = {};
    std::uint32_t capacity = 1000;

    // What the last run reported.
    Report report = {};
    bool intact = false;
    std::vector<std::uint64_t> listed = {};

    // out may be x.
    template <class Stored>
    std::vector<Stored> run(const std::vector<Stored>& x, std::size_t rows, std::size_t columns, bool in_place = false) {
        report = {kNoRow, 0, 0};
        std::vector<DrawnComponent> components(rows);
        const ComponentBody draw = {stream, law, rows, components.data()};
        for (std::size_t block = 0; block < 2; ++block) draw.run(block, 2, HostTeam{kComponentThreads});
        for (const std::size_t row : undecided_components) components[row] = {0, std::numeric_limits<double>::infinity()};

        const ExactGrid grid = privunit_grid(kSigma);
        const float s = grid.sigma / grid.grid;
        const PrivUnitShape shape = {rows, static_cast<std::uint32_t>(columns)};
        listed.assign(capacity, ~std::uint64_t{0});
        std::vector<float> directions(capacity * columns);
        Guarded<Stored> out(in_place ? x : std::vector<Stored>(x.size()));
        const PrivUnitBody<Stored> body = {stream, in_place ? out.data() : x.data(), out.data(), shape, s, grid.grid,
                                           level_one::limits_of(kUnitNormalBound, double{s}, trial.bound_factor), components.data(),
                                           OpenRows{&report, listed.data(), directions.data(), capacity}, trial};
        // Nobody sets up shared memory: what a block has not written is NaN in every type here.
        std::vector<double> dynamic(PrivUnitMemory<Stored>::bytes(shape) / sizeof(double) + 2);
        PrivUnitRowState state;
        constexpr std::size_t kBlocks = 3;
        for (std::size_t block = kBlocks; block-- > 0;) {
            std::memset(dynamic.data(), 0xFF, dynamic.size() * sizeof(double));
            std::memset(static_cast<void*>(&state), 0xFF, sizeof state);
            body.run(block, kBlocks, PrivUnitMemory<Stored>(dynamic.data(), shape), state, HostTeam{kPrivUnitThreads});
        }
        listed.resize(std::min(report.open_samples, capacity));
        intact = out.intact();
        std::vector<Stored> result = out.inside();
        std::vector<float> y(columns);
        for (std::size_t i = 0; i < listed.size(); ++i) {
            settle_row(stream, law, grid, listed[i], {&directions[i * columns], columns}, y.data(), trial.first_level);
            std::transform(y.begin(), y.end(), result.begin() + static_cast<std::ptrdiff_t>(listed[i] * columns),
                           [](float value) { return narrowed<Stored>(static_cast<Wide<Stored>>(value)); });
        }
        return result;
    }

    template <class Stored>
    std::vector<Stored> expected(std::vector<Stored> x, std::size_t rows, std::size_t columns) const {
        std::vector<Stored> y(x.size());
        privunit(stream, view_of(x, rows, columns), law, kSigma, view_of(y, rows, columns));
        return y;
    }
};

std::string shape_text(std::size_t rows, std::size_t columns) { return std::to_string(rows) + " x " + std::to_string(columns); }

template <class Stored>
void rows_equal_the_core(std::size_t rows, std::size_t columns) {
    const std::string what = std::string(name_of(kDType<Stored>)) + " " + shape_text(rows, columns);
    const std::vector<Stored> x = rows_of<Stored>(rows, columns);
    Call call;
    const std::vector<Stored> expected = call.expected(x, rows, columns);
    check(same_bits(call.run(x, rows, columns), expected), "privunit, " + what);
    check(call.intact, "nothing is written outside, " + what);
    // A row in ten million stays open: one here would be a phantom, computed from memory that nobody wrote.
    check(call.report.first_bad_row == kNoRow && call.report.overflow == 0 && call.listed.empty(), "report of " + what);
    check(same_bits(call.run(x, rows, columns, true), expected) && call.intact, "in place, " + what);
    call.trial = {1e9, 2};
    check(same_bits(call.run(x, rows, columns), expected) && call.listed.empty(), "float64 alone, " + what);
}

// All rows go to the host, from x that is gone by then.
template <class Stored>
void the_host_settles_rows(std::size_t rows, std::size_t columns) {
    const std::string what = std::string(name_of(kDType<Stored>)) + " " + shape_text(rows, columns);
    const std::vector<Stored> x = rows_of<Stored>(rows, columns);
    Call call;
    call.trial = {1e9, 4};
    check(same_bits(call.run(x, rows, columns, true), call.expected(x, rows, columns)), "settled by the host, " + what);
    std::sort(call.listed.begin(), call.listed.end());
    bool every = call.listed.size() == rows;
    for (std::size_t row = 0; row < call.listed.size(); ++row) every &= call.listed[row] == row;
    check(every && call.report.overflow == 0, "every row is listed once, " + what);

    call.capacity = static_cast<std::uint32_t>(rows - 1);
    call.run(x, rows, columns);
    check(call.report.overflow == 1 && call.intact, "a list that is too short is reported, " + what);
}

// Rows whose alpha float64 cannot tell are listed, but for those without direction, which have no alpha.
void undecided_components() {
    constexpr std::size_t rows = 20, columns = 100;
    const std::vector<float> x = rows_of<float>(rows, columns);
    Call call;
    call.undecided_components = {0, 3, 7, 19};   // 3 is a row of zeros
    check(same_bits(call.run(x, rows, columns, true), call.expected(x, rows, columns)), "rows of undecided components");
    std::sort(call.listed.begin(), call.listed.end());
    check(call.listed == std::vector<std::uint64_t>{0, 7, 19}, "those rows alone are listed");
}

// A threshold where a row's first proposal lies: float64 cannot say on which side it is.
void a_proposal_at_the_threshold() {
    constexpr std::size_t rows = 40, columns = 33;
    const std::vector<float> x = rows_of<float>(rows, columns);
    Call call;
    Component drawn[kComponentRows];
    draw_components(call.stream, {0x1p-53, 100.0}, 0, kComponentRows, drawn);   // the first proposal of each row is accepted
    const auto* const row = std::find_if(drawn, drawn + kComponentRows, [](const Component& each) { return each.value > 0.5 && !each.in_cap; });
    check(row != drawn + kComponentRows, "a proposal above 0.5 among 16");
    const auto number = static_cast<std::uint64_t>(row - drawn);
    for (const double threshold : {row->value, std::nextafter(row->value, 0.0), std::nextafter(row->value, 9.0)}) {
        call.law = {0x1p-53, threshold};
        check(same_bits(call.run(x, rows, columns), call.expected(x, rows, columns)), "a proposal at the threshold");
        check(call.listed == std::vector<std::uint64_t>{number}, "is left to the host");
    }
}

// Components alone: the CPU's, attempt for attempt, in the cap and below it.
void components_equal_the_core() {
    constexpr std::size_t rows = 5000;
    for (const PrivUnitLaw law : {privunit_law(6.0), privunit_law(0.01), privunit_law(200.0), PrivUnitLaw{0x1p-53, 0.0}}) {
        const KeyStream stream = test_stream(Cipher::chacha8);
        std::vector<DrawnComponent> got(rows);
        ComponentBody{stream, law, rows, got.data()}.run(0, 1, HostTeam{kComponentThreads});
        bool same = true;
        std::size_t in_cap = 0;
        for (std::size_t group = 0; group * kComponentRows < rows; ++group) {
            Component expected[kComponentRows];
            const std::size_t count = std::min(kComponentRows, rows - group * kComponentRows);
            draw_components(stream, law, group, count, expected);
            for (std::size_t i = 0; i < count; ++i) {
                const DrawnComponent& component = got[group * kComponentRows + i];
                same &= component.value == expected[i].value && component.half_width == expected[i].half_width;
                in_cap += expected[i].in_cap;
            }
        }
        check(same, "components at threshold " + std::to_string(law.threshold));
        check((law.cap_probability > 0.1) == (in_cap > 0), "as many in the cap as the law says");
    }
}

// A uniform that begins with 32 zero bits has no bound, in float32 or float64: the row goes to the host, and others that touch its group.
void a_uniform_of_zero_bits() {
    constexpr std::uint64_t kNonce = 4227217;   // whose first group has one: found by trial
    Call call;
    call.stream = test_stream(Cipher::chacha8);
    call.stream.nonce = kNonce;
    for (const std::size_t columns : {std::size_t{100}, std::size_t{256}, std::size_t{768}}) {
        const std::size_t rows = 5;
        const std::vector<float> x = rows_of<float>(rows, columns);
        check(same_bits(call.run(x, rows, columns), call.expected(x, rows, columns)), "a uniform of zero bits, rows of " + std::to_string(columns));
        std::sort(call.listed.begin(), call.listed.end());
        const std::size_t touching = (kGroupSamples + columns - 1) / columns;
        check(call.listed.size() == touching && call.listed.back() == touching - 1, "the rows that touch its group are listed");
    }
}

template <class Stored>
void bad_rows(std::size_t columns) {
    constexpr std::size_t rows = 11;
    std::vector<Stored> x = rows_of<Stored>(rows, columns), zeroed = x;
    for (const std::size_t row : {std::size_t{4}, std::size_t{9}}) {
        std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(row * columns), columns, Stored{});
        const float bad = row == 4 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
        if constexpr (sizeof(Stored) == 2) {
            x[row * columns + columns / 2] = Stored{static_cast<std::uint16_t>(kDType<Stored> == DType::float16 ? 0x7C00 : 0x7F80)};
        } else {
            x[row * columns + columns / 2] = static_cast<Stored>(bad);
        }
    }
    Call call;
    check(same_bits(call.run(x, rows, columns), call.expected(zeroed, rows, columns)), "bad rows have no direction");
    check(call.report.first_bad_row == 4, "the first bad row is reported");
}

// Rows whose squares overflow are scaled; the smallest have a direction from a norm of 2^-100 on.
void rows_of_every_size() {
    constexpr std::size_t rows = 6, columns = 300;
    for (const int exponent : {1000, 1020, 500, -98, -101, -120, -1060}) {
        std::vector<double> x = rows_of<double>(rows, columns);
        for (double& value : x) value = std::ldexp(value, exponent);
        Call call;
        check(same_bits(call.run(x, rows, columns), call.expected(x, rows, columns)), "float64 rows times 2^" + std::to_string(exponent));
    }
    for (const int exponent : {125, -98, -101, -140}) {
        std::vector<float> x = rows_of<float>(rows, columns);
        for (float& value : x) value = std::ldexp(value, exponent);
        Call call;
        check(same_bits(call.run(x, rows, columns), call.expected(x, rows, columns)), "float32 rows times 2^" + std::to_string(exponent));
    }
}

// Without E float32 is wrong now and then, and nothing else hides it.
void the_bound_is_needed() {
    constexpr std::size_t rows = 4000, columns = 768;
    const std::vector<float> x = rows_of<float>(rows, columns);
    Call call;
    const std::vector<float> expected = call.expected(x, rows, columns);
    check(same_bits(call.run(x, rows, columns), expected), "many rows");
    call.trial.bound_factor = 0;
    check(!same_bits(call.run(x, rows, columns), expected), "no bound at all");
}

void lists_have_room() {
    check(open_row_capacity(10, 3) == 10 && open_row_capacity(1000, 3) == 64, "a list for few rows");
    check(open_row_capacity(std::size_t{1} << 32, 2) == 64 + 4 * 256, "a list for many rows");
}

template <class Stored>
void all_of() {
    for (const std::size_t columns : {1u, 5u, 16u, 64u, 100u, 255u, 256u, 257u, 300u, 384u, 768u, 1000u}) rows_equal_the_core<Stored>(17, columns);
    rows_equal_the_core<Stored>(2, 30001);
    the_host_settles_rows<Stored>(5, 9);
    bad_rows<Stored>(100);
    bad_rows<Stored>(256);
}

}  // namespace

int main() {
    all_of<float>();
    all_of<double>();
    all_of<Float16>();
    all_of<Bfloat16>();
    undecided_components();
    a_proposal_at_the_threshold();
    components_equal_the_core();
    a_uniform_of_zero_bits();
    rows_of_every_size();
    the_bound_is_needed();
    lists_have_room();
    return test::summary();
}
