// What level 0 of version 3 errs by, for check_error_bounds: over every half word, and over every word of a pair.
#pragma once

#include <array>
#include <cstdint>

#include "dispatch/dispatch.hpp"

namespace hushvec {

// Exponents of u, each the largest value found. kExponents - 1 is the exponent next to u = 1.
inline constexpr std::size_t kExponents = 18;
struct HalfWordMaxima {
    std::array<double, kExponents> radius{}, laplace{};   // |computed - true| at either end of the interval
    double angle = 0;
    std::array<double, kExponents> joint{}, laplace_joint{};   // |d - (s Z + X - n)| as a share of the bound in use
    std::uint64_t words = 0, open = 0;                         // of the sweep at s = 12.8, X = 0

    void merge(const HalfWordMaxima& other);
};

// Every radius, angle and Laplace magnitude.
void measure_half_words(const WordKernels& on_words, HalfWordMaxima& found);

// Words of the radii first_radius, first_radius + step, ...: of those every `every`-th block of angles, and all where u is small.
void sweep_half_words(const WordKernels& on_words, std::uint32_t first_radius, std::uint32_t step, std::uint64_t every, HalfWordMaxima& found);

// Prints what was found beside the bounds in use. Whether all of them hold.
bool report_half_words(const char* name, const HalfWordMaxima& found);

}  // namespace hushvec
