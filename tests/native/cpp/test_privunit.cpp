// PrivUnitG without Python, small enough for the sanitizers: levels, threads, memory layouts, refusals.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "check.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/generator.hpp"
#include "hushvec/threads.hpp"
#include "plain_rows.hpp"
#include "privunit/privunit.hpp"
#include "test_stream.hpp"

namespace {

using namespace hushvec;
using test::check;
using test::rows_of;
using test::test_stream;
using test::view_of;

constexpr double kSigma = 0.3;

std::vector<float> released(std::vector<float> x, std::size_t rows, std::size_t columns, Output output, PrivUnitTrial trial = {}) {
    std::vector<float> y(x.size(), NAN);
    privunit_trial(test_stream(), view_of(x, DType::float32, rows, columns), privunit_law(6.0), kSigma,
                   view_of(y, DType::float32, rows, columns), output, trial);
    return y;
}

void levels_agree() {
    for (const std::size_t columns : {1u, 5u, 16u, 33u, 256u}) {
        const std::size_t rows = columns < 100 ? 40 : 3;
        const auto x = rows_of(rows * columns);
        const auto expected = released(x, rows, columns, Output::fresh);
        const std::string where = " at " + std::to_string(columns) + " columns";
        check(released(x, rows, columns, Output::fresh, {1e9, 2}) == expected, "level 2 alone" + where);
        check(released(x, rows, columns, Output::in_use) == expected, "output in use" + where);
        if (columns < 20) check(released(x, rows, columns, Output::fresh, {1e9, 4}) == expected, "level 4 alone" + where);
    }
}

void threads_and_splits_agree() {
    const std::size_t rows = 1500, columns = 385;
    const auto x = rows_of(rows * columns);
    set_num_threads(1);
    const auto expected = released(x, rows, columns, Output::fresh);
    set_num_threads(4);
    check(released(x, rows, columns, Output::fresh) == expected, "four threads");
    check(released(x, rows, columns, Output::in_use) == expected, "four threads, output in use");
    set_num_threads(0);
}

void in_place_and_dtypes() {
    const std::size_t rows = 37, columns = 100;
    auto x = rows_of(rows * columns);
    const auto expected = released(x, rows, columns, Output::fresh);
    std::vector<double> wide(x.begin(), x.end()), wide_out(x.size());
    privunit(test_stream(), view_of(wide, DType::float64, rows, columns), privunit_law(6.0), kSigma,
             view_of(wide_out, DType::float64, rows, columns));
    std::size_t different = 0;
    for (std::size_t i = 0; i < x.size(); ++i) different += std::abs(wide_out[i] - double{expected[i]}) > 1.01 * 0.3 / 8;
    check(different == 0, "float64 rows differ from float32 rows by a grid step at most");
    const MatrixView view = view_of(x, DType::float32, rows, columns);
    privunit(test_stream(), view, privunit_law(6.0), kSigma, view);
    check(x == expected, "in place");
}

void bad_rows_are_refused() {
    const std::size_t rows = 20, columns = 64;
    auto x = rows_of(rows * columns);
    x[11 * columns + 3] = NAN;
    x[15 * columns] = INFINITY;
    std::vector<float> y(x.size(), 1.0f);
    std::string message;
    try {
        privunit(test_stream(), view_of(x, DType::float32, rows, columns), privunit_law(6.0), kSigma, view_of(y, DType::float32, rows, columns));
    } catch (const NonFiniteRow& error) {
        message = error.what();
    }
    check(message == "x must be finite, got nan in row 11", "the first bad row is named: " + message);
    check(y == std::vector<float>(x.size(), 1.0f), "nothing is written");
}

void laws() {
    for (const double epsilon : {kSmallestPrivUnitEpsilon, 0.1, 1.0, 10.0, 100.0, kLargestPrivUnitEpsilon}) {
        const PrivUnitLaw law = privunit_law(epsilon);
        check(privunit_epsilon(law) <= epsilon, "epsilon is kept");
        check(std::abs(privunit_mean(law) - law.threshold) <= 1e-9 * law.threshold + 1e-13, "the best split");
    }
}

}  // namespace

int main() {
    laws();
    levels_agree();
    threads_and_splits_agree();
    in_place_and_dtypes();
    bad_rows_are_refused();
    return test::summary();
}
