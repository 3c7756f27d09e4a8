"""Known answers of composition, from programs that share nothing with the library.

composition_exact.csv: the composition written out and summed or integrated in 60-digit arithmetic (mpmath): every outcome of
randomised response as it stands in Kairouz, Oh, Viswanath (2015) theorem 3.3 and Murtagh and Vadhan (2016) theorem 1.5; one-
dimensional Laplace losses (an atom at either end, a density between) by quadrature; Gaussian losses by Balle and Wang (2018)
theorem 8 under the integral. `delta` is what the releases give at `epsilon`.

composition_prv.csv: prv-accountant 0.2.0 (Gopi, Lee, Wutschitz 2021), which encloses epsilon between two bounds.

Run:  python make_accounting_vectors.py        (needs mpmath and prv-accountant; writes beside itself, takes some minutes)
"""

import csv
import itertools
import pathlib

from mpmath import mp, mpf

mp.dps = 60
HERE = pathlib.Path(__file__).parent

# (epsilon, count) of pure releases; epsilons at which delta is wanted.
PURE = [
    ("0.5x10", ["0.25", "1", "3", "4.5", "4.999"]),
    ("0.1x100", ["0.5", "2", "5", "8"]),
    ("0.01x1000", ["0.1", "0.5", "1", "2"]),
    ("1x1", ["0.001", "0.5", "0.999"]),
    ("8x3", ["1", "8", "12", "20", "23.9"]),
    ("0.1x7;0.25x5;1.5x2", ["0.5", "2", "4", "4.9"]),
    ("0.3x1;0.31x1;0.32x1;0.4x1;0.55x1;0.7x1;0.71x1;0.9x1;1.1x1;1.3x1", ["0.5", "2", "4", "6"]),
]
# 24 distinct epsilons: more sums than the library keeps.
MANY = [";".join(f"{0.05 + 0.017 * i:.3f}x1" for i in range(24)), ["0.25", "1", "2.5", "4"]]
# Laplace noise multipliers, Gaussian noise multiplier or nothing.
LAPLACE = [
    ("1", "", ["0.1", "0.5", "0.9"]),
    ("1;1", "", ["0.1", "0.5", "1.5", "1.9"]),
    ("2;0.5", "", ["0.25", "1", "2.25"]),
    ("1;2;4", "", ["0.25", "1", "1.5"]),
    ("1", "2", ["0.25", "1", "2", "4"]),
    ("2;3", "1", ["0.5", "2", "4"]),
]
# noise multiplier, sampling probability, steps, delta
POISSON = [
    ("1", "0.01", 100, "1e-5"),
    ("1", "0.01", 1000, "1e-6"),
    ("0.8", "0.005", 2000, "1e-5"),
    ("2", "0.1", 500, "1e-5"),
    ("1", "0.001", 10000, "1e-5"),
    ("0.6", "0.01", 1000, "1e-5"),
    ("4", "0.5", 100, "1e-6"),
]


def parsed(text):
    return [(mpf(float(epsilon)), int(count)) for epsilon, count in (group.split("x") for group in text.split(";"))]


def optimal_delta(groups, epsilon):
    """Murtagh and Vadhan, theorem 1.5: over all subsets S of releases, max(0, e^(sum of S) - e^(epsilon + sum of the rest))."""
    total = mpf(0)
    for wins in itertools.product(*(range(count + 1) for _, count in groups)):
        ways = mp.mpf(1)
        for (_, count), won in zip(groups, wins):
            ways *= mp.binomial(count, won)
        won = sum(one * number for (one, _), number in zip(groups, wins))
        lost = sum(one * (count - number) for (one, count), number in zip(groups, wins))
        total += ways * max(mpf(0), mp.exp(won) - mp.exp(epsilon + lost))
    for one, count in groups:
        total /= (1 + mp.exp(one)) ** count
    return total


def optimal_delta_of_many(groups, epsilon):
    """The same sum for many single releases, the subsets split in two halves: the second half is sorted and summed from its end."""
    half = len(groups) // 2
    first, second = subsets(groups[:half]), sorted(subsets(groups[half:]))
    sums, won_mass, lost_mass = [], [mpf(0)], [mpf(0)]
    for loss, probability in reversed(second):
        sums.append(loss)
        won_mass.append(won_mass[-1] + probability)
        lost_mass.append(lost_mass[-1] + probability * mp.exp(-loss))
    total, taken = mpf(0), 0
    for loss, probability in sorted(first):
        while taken < len(sums) and sums[taken] > epsilon - loss:
            taken += 1
        total += probability * (won_mass[taken] - mp.exp(epsilon - loss) * lost_mass[taken])
    return total


def subsets(groups):
    found = [(mpf(0), mpf(1))]
    for epsilon, _ in groups:
        truth = mp.exp(epsilon) / (1 + mp.exp(epsilon))
        up = [(loss + epsilon, probability * truth) for loss, probability in found]
        down = [(loss - epsilon, probability * (1 - truth)) for loss, probability in found]
        found = up + down
    return found


def gaussian_delta(epsilon, multiplier):
    half = 1 / (2 * multiplier)
    return mp.ncdf(half - epsilon * multiplier) - mp.exp(epsilon) * mp.ncdf(-half - epsilon * multiplier)


def laplace_delta(multipliers, gaussian, epsilon):
    """E over the losses of the first Laplace releases of the delta of the rest at what is left of epsilon."""
    if not multipliers:
        if gaussian:
            return gaussian_delta(epsilon, gaussian)
        return max(mpf(0), 1 - mp.exp(epsilon))
    t = 1 / multipliers[0]
    rest = multipliers[1:]
    inside = lambda loss: laplace_delta(rest, gaussian, epsilon - loss) * mp.exp((loss - t) / 2) / 4
    # Kinks: where what is left of epsilon meets a sum or difference of the other losses' ends.
    ends = [sum(sign / one for sign, one in zip(signs, rest)) for signs in itertools.product((-1, 1), repeat=len(rest))]
    kinks = sorted({-t, t, *(epsilon - end for end in ends if -t < epsilon - end < t)})
    atoms = laplace_delta(rest, gaussian, epsilon - t) / 2 + laplace_delta(rest, gaussian, epsilon + t) * mp.exp(-t) / 2
    return atoms + mp.quad(inside, kinks)


def exact_rows():
    for text, epsilons in PURE:
        for epsilon in epsilons:
            yield "pure", text, "", epsilon, optimal_delta(parsed(text), mpf(float(epsilon)))
    text, epsilons = MANY
    for epsilon in epsilons:
        yield "pure", text, "", epsilon, optimal_delta_of_many(parsed(text), mpf(float(epsilon)))
    mp.dps = 20   # enough for an integral that is compared to ten digits
    for text, gaussian, epsilons in LAPLACE:
        for epsilon in epsilons:
            multipliers = [mpf(float(one)) for one in text.split(";")]
            multiplier = mpf(float(gaussian)) if gaussian else None
            yield "laplace", text, gaussian, epsilon, laplace_delta(multipliers, multiplier, mpf(float(epsilon)))


def prv_rows():
    import prv_accountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    for multiplier, probability, steps, delta in POISSON:
        mechanism = PoissonSubsampledGaussianMechanism(
            sampling_probability=float(probability), noise_multiplier=float(multiplier)
        )
        accountant = prv_accountant.PRVAccountant(
            prvs=[mechanism], max_self_compositions=[steps], eps_error=0.01, delta_error=float(delta) * 1e-4
        )
        yield multiplier, probability, steps, delta, *(f"{bound:.9g}" for bound in accountant.compute_epsilon(float(delta), [steps]))


def write(name, header, rows):
    with open(HERE / name, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def main():
    write("composition_exact.csv", ["kind", "releases", "gaussian", "epsilon", "delta"],
          [[*row[:-1], mp.nstr(row[-1], 15)] for row in exact_rows()])
    write("composition_prv.csv",
          ["noise_multiplier", "sampling_probability", "steps", "delta", "epsilon_lower", "epsilon_estimate", "epsilon_upper"],
          prv_rows())


if __name__ == "__main__":
    main()
