// The calibration functions against known answers, against each other, and against their own promises.
//
// Usage: test_calibrate [path of gaussian_sigma.csv]     the other known answers lie beside it; default tests/evidence/vectors
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "hushvec/calibrate.hpp"

namespace {

using hushvec::gaussian_delta;
using hushvec::gaussian_epsilon;
using hushvec::gaussian_sigma;
using hushvec::gaussian_sigma_classical;
using hushvec::laplace_scale;
using hushvec::round_up_to_float;
using hushvec::test::check;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();

// The promises of the header.
constexpr double kSigmaExcess = 4e-14;
constexpr double kDeltaExcess = 2.5e-14;
constexpr double kEpsilonExcess = 1e-13;

std::string text(double value) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%.17g", value);
    return buffer;
}

std::string call(const std::string& name, double a, double b, double c) {
    return name + "(" + text(a) + ", " + text(b) + ", " + text(c) + ")";
}

std::vector<std::vector<double>> read_csv(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::vector<double>> rows;
    std::string line;
    std::getline(file, line);   // header
    while (std::getline(file, line)) {
        std::vector<double> row;
        std::stringstream cells(line);
        for (std::string cell; std::getline(cells, cell, ',');) row.push_back(std::strtod(cell.c_str(), nullptr));
        rows.push_back(row);
    }
    return rows;
}

// answer in [exact, exact (1 + relative)], one unit of the smallest subnormal allowed on top
bool is_tight_upper_bound(double answer, double exact, double relative) {
    return answer >= exact && answer - exact <= relative * exact + kSmallest;
}

// Not every C library's does: that of mingw-w64 is one unit in the last place lower here.
void test_fma_rounds_once() {
    const volatile double a = -0x1.b64ecde7a8ecdp+0, b = -0x1.6c01d973168f3p+0, c = 0x1.6e3963aac23d2p-5;
    check(std::fma(a, b, c) == 0x1.3d56813fb05d1p+1, "fma rounds once");
}

void test_sigma_known_answers(const std::string& path) {
    const auto rows = read_csv(path);
    check(rows.size() == 216, "216 pairs in " + path);
    std::vector<double> epsilon, delta, sensitivity, one_by_one;
    for (const auto& row : rows) {
        const double sigma = gaussian_sigma(row[0], row[1], 1.0);
        check(is_tight_upper_bound(sigma, row[2], kSigmaExcess),
              call("gaussian_sigma", row[0], row[1], 1.0) + " = " + text(sigma));
        epsilon.push_back(row[0]);
        delta.push_back(row[1]);
        sensitivity.push_back(1.0);
        one_by_one.push_back(sigma);
    }
    std::vector<double> out(rows.size());
    gaussian_sigma(epsilon, delta, sensitivity, out);
    check(out == one_by_one, "gaussian_sigma of an array equals gaussian_sigma of its elements, bit for bit");
}

void test_receipts(const std::string& path) {
    constexpr double kPrinted = 1e-9;   // the file has ten digits
    const auto rows = read_csv(path);
    check(rows.size() == 4, "4 rows in " + path);
    for (const auto& row : rows) {
        const double basic = gaussian_sigma(row[1], row[2], row[3]);
        const double joint = gaussian_sigma(16.0, 1e-3, row[3] * std::sqrt(row[0]));
        const std::string what = "sigma of one of " + text(row[0]) + " chunks, ";
        check(std::abs(basic / row[4] - 1.0) < kPrinted, what + "basic composition");
        check(std::abs(joint / row[5] - 1.0) < kPrinted, what + "joint release");
    }
}

void test_delta_known_answers(const std::string& path) {
    const auto rows = read_csv(path);
    check(rows.size() == 237, "known answers in " + path);
    std::vector<double> epsilon, sigma, sensitivity, one_by_one;
    for (const auto& row : rows) {
        const double delta = gaussian_delta(row[0], row[1], row[2]);
        check(is_tight_upper_bound(delta, row[3], kDeltaExcess),
              call("gaussian_delta", row[0], row[1], row[2]) + " = " + text(delta));
        epsilon.push_back(row[0]);
        sigma.push_back(row[1]);
        sensitivity.push_back(row[2]);
        one_by_one.push_back(delta);
    }
    std::vector<double> out(rows.size());
    gaussian_delta(epsilon, sigma, sensitivity, out);
    check(out == one_by_one, "gaussian_delta of an array equals gaussian_delta of its elements, bit for bit");
}

void test_epsilon_known_answers(const std::string& path) {
    const auto rows = read_csv(path);
    check(rows.size() == 150, "known answers in " + path);
    std::vector<double> delta, sigma, sensitivity, one_by_one;
    for (const auto& row : rows) {
        const double epsilon = gaussian_epsilon(row[0], row[1], 1.0);
        const double allowed = kEpsilonExcess * (row[2] + std::min(1.0, 1.0 / row[1]));
        const bool exact_zero = row[2] != 0.0 || epsilon == 0.0;
        check(epsilon >= row[2] && epsilon - row[2] <= allowed && exact_zero,
              call("gaussian_epsilon", row[0], row[1], 1.0) + " = " + text(epsilon));
        delta.push_back(row[0]);
        sigma.push_back(row[1]);
        sensitivity.push_back(1.0);
        one_by_one.push_back(epsilon);
    }
    std::vector<double> out(rows.size());
    gaussian_epsilon(delta, sigma, sensitivity, out);
    check(out == one_by_one, "gaussian_epsilon of an array equals gaussian_epsilon of its elements, bit for bit");
}

// The published formula is safe below epsilon = 1, and above about 8 it is not.
void test_classical() {
    struct Fact {
        double epsilon, delta, analytic, classical, really;
    };
    const Fact facts[] = {
        // clang-format off
        {1, 1e-5, 3.7306, 4.8448, 4.1e-8},  {8, 1e-5, 0.60023, 0.60561, 8.0e-6}, {10, 1e-5, 0.49989, 0.48448, 2.3e-5},
        {20, 1e-5, 0.29004, 0.24224, 1.5e-3}, {50, 1e-5, 0.14976, 0.09690, 0.59},  {16, 1e-3, 0.28861, 0.23603, 3.2e-2},
        // clang-format on
    };
    for (const Fact& fact : facts) {
        const std::string at = " at epsilon = " + text(fact.epsilon) + ", delta = " + text(fact.delta);
        const double analytic = gaussian_sigma(fact.epsilon, fact.delta, 1.0);
        const double classical = gaussian_sigma_classical(fact.epsilon, fact.delta, 1.0, true);
        const double really = gaussian_delta(fact.epsilon, classical, 1.0);
        check(std::abs(analytic / fact.analytic - 1.0) < 3e-5, "analytic sigma" + at);
        check(std::abs(classical / fact.classical - 1.0) < 6e-5, "classical sigma" + at);
        check(std::abs(really / fact.really - 1.0) < 3e-2, "delta of the classical sigma" + at);
        check((classical < analytic) == (really > fact.delta), "too little noise is seen as too large a delta" + at);
    }
    bool safe = true;
    for (double epsilon = 0.999; epsilon > 1e-6; epsilon *= 0.7) {
        for (double delta = 0.999; delta > 1e-300; delta *= delta > 1e-3 ? 0.9 : 1e-3) {
            safe = safe && gaussian_sigma_classical(epsilon, delta, 2.0) >= gaussian_sigma(epsilon, delta, 2.0);
        }
    }
    check(safe, "classical sigma >= analytic sigma for epsilon < 1");
    const double exact = 4.844805262605389;   // sqrt(2 ln 125000)
    check(std::abs(gaussian_sigma_classical(1.0, 1e-5, 1.0, true) / exact - 1.0) < 1e-13, "classical sigma to 1e-13");
}

// Log-uniform over far more than anyone uses, sensitivities that are not powers of two.
void test_promises_at_random() {
    std::mt19937_64 bits(20180614);
    const auto uniform = [&bits](double low, double high) {
        return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
    };
    int sigma_broken = 0, sigma_loose = 0, epsilon_broken = 0, epsilon_loose = 0;
    constexpr int kPoints = 200000;
    for (int i = 0; i < kPoints; ++i) {
        const bool wide = i % 4 == 0;
        const double epsilon = std::pow(10.0, wide ? uniform(-250, 25) : uniform(-3, 3));
        const double log_delta = wide ? uniform(-322, -0.01) : uniform(-12, -2);
        const double near_one = 1.0 - std::pow(10.0, uniform(-15.9, -0.3));
        const double delta = i % 16 == 0 ? near_one : std::pow(10.0, log_delta);
        const double sensitivity = std::pow(10.0, uniform(-3, 3));

        const double sigma = gaussian_sigma(epsilon, delta, sensitivity);
        sigma_broken += !(gaussian_delta(epsilon, sigma, sensitivity) <= delta);
        sigma_loose += !(gaussian_delta(epsilon, sigma * (1.0 - 2.0 * kSigmaExcess), sensitivity) > delta);

        const double ratio = wide ? std::pow(10.0, uniform(-150, 300)) : std::pow(10.0, uniform(-2, 3));
        const double least = gaussian_epsilon(delta, ratio * sensitivity, sensitivity);
        epsilon_broken += !(gaussian_delta(least, ratio * sensitivity, sensitivity) <= delta);
        const double less = least - 2.0 * kEpsilonExcess * (least + std::min(1.0, 1.0 / ratio));
        epsilon_loose += less > 0.0 && !(gaussian_delta(less, ratio * sensitivity, sensitivity) > delta);
    }
    check(sigma_broken == 0, "gaussian_delta(epsilon, gaussian_sigma(epsilon, delta)) <= delta");
    check(sigma_loose == 0, "a slightly smaller sigma would not do");
    check(epsilon_broken == 0, "gaussian_delta(gaussian_epsilon(delta, sigma), sigma) <= delta");
    check(epsilon_loose == 0, "a slightly smaller epsilon would not do");
}

void test_monotone() {
    double last_sigma = kInfinity, last_delta = 1.0, last_epsilon = kInfinity;
    bool sigma_falls = true, delta_falls = true, epsilon_falls = true;
    for (double value = 1e-3; value < 1e3; value *= 1.01) {
        const double sigma = gaussian_sigma(value, 1e-6, 1.0);
        const double delta = gaussian_delta(value, 2.0, 1.0);
        const double epsilon = gaussian_epsilon(1e-6, value, 1.0);
        sigma_falls = sigma_falls && sigma < last_sigma;
        delta_falls = delta_falls && (delta < last_delta || delta == kSmallest);
        epsilon_falls = epsilon_falls && epsilon < last_epsilon;
        last_sigma = sigma;
        last_delta = delta;
        last_epsilon = epsilon;
    }
    check(sigma_falls, "sigma falls as epsilon grows");
    check(delta_falls, "delta falls as epsilon grows");
    check(epsilon_falls, "epsilon falls as sigma grows");
}

void test_edges() {
    check(gaussian_delta(0.0, 0.5, 1.0) >= 0.682689492137085, "epsilon = 0 gives the total variation distance");
    check(gaussian_delta(1.0, 1e-300, 1.0) == 1.0, "almost no noise: delta = 1");
    check(gaussian_delta(1.0, kSmallest, kLargest) == 1.0, "sigma/sensitivity below every double: delta = 1");
    check(gaussian_delta(1.0, 1e300, 1.0) == kSmallest, "delta is never 0");
    check(gaussian_delta(kLargest, 1.0, 1.0) == kSmallest, "the largest epsilon");
    check(gaussian_delta(1e-300, kLargest, kSmallest) > 0.0, "sigma/sensitivity above every double");

    check(gaussian_epsilon(0.4, 1.0, 1.0) == 0.0, "delta above the total variation distance: epsilon = 0");
    check(gaussian_epsilon(0.38, 1.0, 1.0) > 0.0, "delta just below the total variation distance: epsilon > 0");
    check(gaussian_epsilon(1e-5, 1e-160, 1.0) == kInfinity, "no double is large enough: epsilon = inf");
    check(gaussian_epsilon(1e-5, kSmallest, kLargest) == kInfinity,
          "sigma/sensitivity below every double: epsilon = inf");

    check(gaussian_sigma(1.0, 1e-5, 2.0) == 2.0 * gaussian_sigma(1.0, 1e-5, 1.0),
          "sigma is proportional to sensitivity");
    check(gaussian_sigma(kLargest, 0.5, 1.0) > 0.0, "the largest epsilon needs some noise");
    check(gaussian_sigma(1.0, 0.5, kSmallest) >= kSmallest, "the smallest sensitivity needs some noise");
    const double tiny = gaussian_sigma(1.0, kSmallest, 1.0);
    check(gaussian_delta(1.0, tiny, 1.0) == kSmallest && tiny < 40.0, "the smallest delta");

    check(laplace_scale(0.5, 3.0) == 6.0, "an exact scale stays exact");
    const double third = laplace_scale(3.0, 1.0);
    check(std::fma(third, 3.0, -1.0) >= 0.0, "1/3 is rounded up");
    check(std::fma(std::nextafter(third, 0.0), 3.0, -1.0) < 0.0, "1/3 is not rounded up too far");
    const double tenth = laplace_scale(10.0, 1.0);
    check(std::fma(tenth, 10.0, -1.0) >= 0.0, "1/10 is rounded up");
    check(std::fma(std::nextafter(tenth, 0.0), 10.0, -1.0) < 0.0, "1/10 is not rounded up too far");
    check(laplace_scale(kLargest, kSmallest) == kSmallest, "a scale is never 0");

    check(round_up_to_float(0.1) == 0.1f, "0.1, whose nearest float is above it");
    check(round_up_to_float(0.7) == std::nextafter(0.7f, 1.0f), "0.7, whose nearest float is below it");
    check(round_up_to_float(1.0) == 1.0f, "a float stays itself");
    check(round_up_to_float(std::nextafter(1.0, 2.0)) == std::nextafter(1.0f, 2.0f), "just above 1");
    check(round_up_to_float(std::nextafter(1.0, 0.0)) == 1.0f, "just below 1");
    check(round_up_to_float(1e-60) == std::numeric_limits<float>::denorm_min(), "below every float");
    check(round_up_to_float(0.0) == 0.0f, "zero");
    check(round_up_to_float(-1.0 - 1e-12) == -1.0f, "a negative number goes up too");
}

template <class Function>
void check_message(Function function, const std::string& expected) {
    std::string message = "nothing was thrown";
    try {
        function();
    } catch (const std::invalid_argument& error) {
        message = error.what();
    }
    check(message == expected, "message \"" + expected + "\", but: " + message);
}

void test_messages() {
    check_message([] { gaussian_sigma(-1.0, 1e-5, 1.0); }, "epsilon must be > 0 and finite, got -1.0");
    check_message([] { gaussian_sigma(0.0, 1e-5, 1.0); }, "epsilon must be > 0 and finite, got 0.0");
    check_message([] { gaussian_sigma(kInfinity, 1e-5, 1.0); }, "epsilon must be > 0 and finite, got inf");
    check_message([] { gaussian_sigma(kNaN, 1e-5, 1.0); }, "epsilon must be > 0 and finite, got nan");
    check_message([] { gaussian_sigma(1.0, 0.0, 1.0); }, "delta must be > 0 and < 1, got 0.0");
    check_message([] { gaussian_sigma(1.0, 1.0, 1.0); }, "delta must be > 0 and < 1, got 1.0");
    check_message([] { gaussian_sigma(1.0, kNaN, 1.0); }, "delta must be > 0 and < 1, got nan");
    check_message([] { gaussian_sigma(1.0, 1e-5, 0.0); }, "sensitivity must be > 0 and finite, got 0.0");
    check_message([] { gaussian_sigma(1.0, 1e-300, kLargest); },
                  "sigma must be at most 1.7976931348623157e+308, got inf");
    check_message([] { gaussian_delta(-0.5, 1.0, 1.0); }, "epsilon must be >= 0 and finite, got -0.5");
    check_message([] { gaussian_delta(1.0, 0.0, 1.0); }, "sigma must be > 0 and finite, got 0.0");
    check_message([] { gaussian_delta(1.0, 1.0, -2.0); }, "sensitivity must be > 0 and finite, got -2.0");
    check_message([] { gaussian_epsilon(1.5, 1.0, 1.0); }, "delta must be > 0 and < 1, got 1.5");
    check_message([] { gaussian_epsilon(1e-5, kInfinity, 1.0); }, "sigma must be > 0 and finite, got inf");
    check_message([] { gaussian_sigma_classical(1.0, 1e-5, 1.0); },
                  "epsilon must be < 1 for the classical sigma, got 1.0");
    check_message([] { gaussian_sigma_classical(0.5, 2.0, 1.0); }, "delta must be > 0 and < 1, got 2.0");
    check_message([] { laplace_scale(0.0, 1.0); }, "epsilon must be > 0 and finite, got 0.0");
    check_message([] { laplace_scale(1e-300, 1e300); }, "scale must be at most 1.7976931348623157e+308, got inf");
    check_message([] { round_up_to_float(1e39); }, "value must be at most 3.4028235e+38 in size, got 1e+39");
    check_message([] { round_up_to_float(kNaN); }, "value must be at most 3.4028235e+38 in size, got nan");

    const std::vector<double> good = {1.0, 2.0, 3.0}, bad = {1.0, 2.0, -3.0}, short_one = {1.0};
    const std::vector<double> deltas = {0.1, 0.2, 0.3}, bad_deltas = {0.1, 1.0, 2.0};
    std::vector<double> out = {7.0, 7.0, 7.0};
    check_message([&] { gaussian_sigma(bad, deltas, good, out); }, "epsilon[2] must be > 0 and finite, got -3.0");
    check_message([&] { gaussian_sigma(good, bad_deltas, good, out); }, "delta[1] must be > 0 and < 1, got 1.0");
    check_message([&] { gaussian_delta(good, bad, good, out); }, "sigma[2] must be > 0 and finite, got -3.0");
    check_message([&] { gaussian_epsilon(deltas, good, bad, out); }, "sensitivity[2] must be > 0 and finite, got -3.0");
    check_message([&] { gaussian_sigma_classical(good, deltas, good, out); },
                  "epsilon[0] must be < 1 for the classical sigma, got 1.0");
    check_message([&] { laplace_scale(bad, good, out); }, "epsilon[2] must be > 0 and finite, got -3.0");
    check_message([&] { gaussian_sigma(good, short_one, good, out); }, "delta must have 3 elements, got 1");
    check_message([&] { laplace_scale(short_one, good, out); }, "epsilon must have 3 elements, got 1");
    check(out == std::vector<double>{7.0, 7.0, 7.0}, "a broken rule writes nothing");

    std::vector<double> nothing;
    gaussian_sigma(nothing, nothing, nothing, nothing);
    check(nothing.empty(), "an empty array is no error");
}

}  // namespace

int main(int argc, char** argv) {
    const std::string golden = argc > 1 ? argv[1] : "tests/evidence/vectors/gaussian_sigma.csv";
    const std::size_t slash = golden.find_last_of('/');
    const std::string folder = slash == std::string::npos ? "" : golden.substr(0, slash + 1);
    test_fma_rounds_once();
    test_sigma_known_answers(golden);
    test_receipts(folder + "seed_receipts.csv");
    test_delta_known_answers(folder + "gaussian_delta.csv");
    test_epsilon_known_answers(folder + "gaussian_epsilon.csv");
    test_classical();
    test_promises_at_random();
    test_monotone();
    test_edges();
    test_messages();
    return hushvec::test::summary();
}
