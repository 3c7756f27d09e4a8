// How much noise: parameters of the Gaussian and the Laplace mechanism from (epsilon, delta), and back.
//
// Gaussian mechanism, exact law (Balle and Wang 2018, theorem 8), s = sigma / sensitivity, sensitivity in L2:
//   delta(epsilon) = Phi(1/(2s) - epsilon s) - e^epsilon Phi(-1/(2s) - epsilon s)
//
// Every answer lies on the safe side of the exact one for the doubles that were passed: delta, epsilon, sigma and
// scale are never too small. sigma and epsilon are re-checked before they are returned:
//   gaussian_delta(epsilon, gaussian_sigma(epsilon, delta, D), D) <= delta     and     the same for gaussian_epsilon.
//
// Excess over the exact value, relative: sigma 4e-14, delta 2.5e-14; epsilon 1e-13 of
// epsilon + min(1, sensitivity/sigma). Subnormal answers: one unit of 4.9e-324 more. Monotone up to that excess only.
//
// Valid range: epsilon > 0 and finite (gaussian_delta also takes 0); 0 < delta < 1, subnormal numbers included;
// sigma and sensitivity > 0 and finite. Anything else throws std::invalid_argument with "name rule, got value".
// At the ends of the range:
//   gaussian_delta    is at least 4.9e-324, however large sigma, and 1 where no smaller double is large enough
//   gaussian_epsilon  is 0 where epsilon = 0 already holds with this delta, +inf where no double is large enough
//   gaussian_sigma    throws where the answer exceeds about 1e308, so do the scales: infinite noise is no answer
//
// The array forms compute element by element, name the first element that breaks a rule, and check them all before
// they write.
#pragma once

#include <span>

namespace hushvec {

// delta that noise sigma really gives at epsilon.
double gaussian_delta(double epsilon, double sigma, double sensitivity);

// Smallest epsilon that noise sigma gives at delta.
double gaussian_epsilon(double delta, double sigma, double sensitivity);

// Smallest sigma that gives (epsilon, delta).
double gaussian_sigma(double epsilon, double delta, double sensitivity);

// sensitivity * sqrt(2 ln(1.25/delta)) / epsilon (Dwork and Roth 2014, theorem A.1), for comparison with published
// numbers. The theorem covers epsilon < 1 only, and above epsilon of about 8 this sigma does not give (epsilon,
// delta). It throws for epsilon >= 1 unless allow_unproven is set: the caller then owes its reader gaussian_delta of
// the result.
double gaussian_sigma_classical(double epsilon, double delta, double sensitivity, bool allow_unproven = false);

// sensitivity / epsilon, sensitivity in L1 (Dwork, McSherry, Nissim, Smith 2006, proposition 1): pure epsilon-DP.
double laplace_scale(double epsilon, double sensitivity);

// The smallest float >= value. Throws above the largest float and for NaN.
float round_up_to_float(double value);

void gaussian_delta(std::span<const double> epsilon, std::span<const double> sigma, std::span<const double> sensitivity,
                    std::span<double> out);
void gaussian_epsilon(std::span<const double> delta, std::span<const double> sigma, std::span<const double> sensitivity,
                      std::span<double> out);
void gaussian_sigma(std::span<const double> epsilon, std::span<const double> delta, std::span<const double> sensitivity,
                    std::span<double> out);
void gaussian_sigma_classical(std::span<const double> epsilon, std::span<const double> delta,
                              std::span<const double> sensitivity, std::span<double> out, bool allow_unproven = false);
void laplace_scale(std::span<const double> epsilon, std::span<const double> sensitivity, std::span<double> out);

}  // namespace hushvec
