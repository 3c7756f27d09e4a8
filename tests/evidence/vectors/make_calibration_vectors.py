"""Known answers of the Gaussian privacy profile: gaussian_delta.csv, and gaussian_epsilon.csv at sensitivity 1.

Theorem 8 of Balle and Wang (2018) as it is written,
    delta = Phi(1/(2s) - epsilon s) - e^epsilon Phi(-1/(2s) - epsilon s),    s = sigma/sensitivity,
in 400-digit arithmetic, with the arguments taken as the doubles their texts stand for. Nothing is shared with the
library: no Mills ratio, no logarithms, and the roots are bisected. 250 digits give the same files: 400 leave room for
the cancellation of the two terms.

Run:  python make_calibration_vectors.py        (needs mpmath; writes beside itself)
"""

import csv
import pathlib

from mpmath import mp, mpf

mp.dps = 400
PRINTED_DIGITS = 30
HERE = pathlib.Path(__file__).parent

EPSILONS = ["0", "1e-6", "0.001", "0.1", "0.5", "1", "2", "5.333333333333333", "10", "50", "700", "1000", "10000"]
# epsilon s - 1/(2s), which decides the regime: delta near 1, the switch at -1/2, cancellation near 0, the far tail,
# subnormal delta
ARGUMENTS = [-8, -3, -1, -0.6, -0.5, -0.4, -0.1, 0, 0.5, 2, 5, 10, 20, 37, 38.4]
SENSITIVITIES = ["3", "0.7"]      # sigma/sensitivity is no double
UNEVEN_EPSILONS, UNEVEN_ARGUMENTS = ["1", "50", "700", "10000"], [-1, -0.4, 2, 10, 37]
DELTAS = ["1e-320", "1e-300", "1e-100", "1e-30", "1e-12", "1e-9", "1e-6", "1e-5", "0.001", "0.1", "0.25", "0.5", "0.75",
          "0.999", "0.999999999"]
SIGMAS = ["0.01", "0.05", "0.2", "0.5", "1", "2", "5", "20", "100", "10000"]


def phi_cdf(t):
    return mp.erfc(-t / mp.sqrt(2)) / 2


def profile(epsilon, ratio):
    half = 1 / (2 * ratio)
    return phi_cdf(half - epsilon * ratio) - mp.exp(epsilon) * phi_cdf(-half - epsilon * ratio)


def sigma_text(epsilon, argument, sensitivity=1):
    """sigma at which epsilon s - 1/(2s) is about `argument`, to six digits."""
    upper = mp.sqrt(mpf(argument) ** 2 + 2 * epsilon)
    if upper == argument:
        return None   # epsilon = 0 and argument >= 0: no such sigma
    return repr(float(mp.nstr(sensitivity / (upper - argument), 6)))


def smallest_epsilon(delta, sigma):
    if profile(mpf(0), sigma) <= delta:
        return mpf(0)
    low, high = mpf(0), mpf(1)
    while profile(high, sigma) > delta:
        low, high = high, 2 * high
    while high - low > high * mpf(10) ** -(PRINTED_DIGITS + 10):
        middle = (low + high) / 2
        low, high = (low, middle) if profile(middle, sigma) <= delta else (middle, high)
    return high


def write(name, header, rows):
    with open(HERE / name, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def main():
    points = [(e, sigma_text(mpf(float(e)), x), "1") for e in EPSILONS for x in ARGUMENTS]
    points += [("0", sigma, "1") for sigma in SIGMAS]
    points += [(e, sigma_text(mpf(float(e)), x, mpf(float(d))), d)
               for e in UNEVEN_EPSILONS for x in UNEVEN_ARGUMENTS for d in SENSITIVITIES]
    write("gaussian_delta.csv", ["epsilon", "sigma", "sensitivity", "delta"],
          [[e, s, d, mp.nstr(profile(mpf(float(e)), mpf(float(s)) / mpf(float(d))), PRINTED_DIGITS)]
           for e, s, d in points if s])
    write("gaussian_epsilon.csv", ["delta", "sigma", "epsilon"],
          [[d, s, mp.nstr(smallest_epsilon(mpf(float(d)), mpf(float(s))), PRINTED_DIGITS)]
           for d in DELTAS for s in SIGMAS])


if __name__ == "__main__":
    main()
