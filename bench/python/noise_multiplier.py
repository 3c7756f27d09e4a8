"""How long it takes to solve for the noise of a schedule, and to compose it once. Prints the rows of a table.

    OMP_NUM_THREADS=1 python bench/python/noise_multiplier.py
    OMP_NUM_THREADS=1 python bench/python/noise_multiplier.py --rounds 9

Seconds are medians; nothing is kept from one call to the next. The first call of a process also loads dp-accounting, which is left out.
"""

import argparse
import statistics
import time

from hushvec.accounting import pld, poisson
from hushvec.training import StepSchedule, noise_multiplier_for

# epsilon, delta, sampling probability, steps, adjacency, what is clipped
SCHEDULES = [
    (2.0, 1e-5, 0.01, 1_000, "add-remove", "example"),
    (1.0, 1e-5, 0.001, 10_000, "add-remove", "example"),
    (8.0, 1e-6, 0.05, 500, "add-remove", "example"),
    (2.0, 1e-5, 0.01, 1_000, "replace-one", "example"),
    (2.0, 1e-5, 0.01, 1_000, "add-remove", "batch"),
    (1.0, 1e-5, 0.05, 200, "replace-one", "batch"),
    (0.5, 1e-6, 0.004, 30_000, "add-remove", "example"),
    (2.0, 1e-5, 0.2, 20, "add-remove", "example"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    noise_multiplier_for(2.0, 1e-5, 0.2, 20)
    print("| epsilon | delta | q | steps | adjacency | clipped | sigma / C | one composition (s) | solved (s) |")
    print("|---|---|---|---|---|---|---|---|---|")
    for schedule in SCHEDULES:
        print(row(*schedule, rounds), flush=True)


def row(epsilon, delta, probability, steps, adjacency, clipped, rounds):
    answer, solved = timed(lambda: noise_multiplier_for(epsilon, delta, probability, steps, adjacency, clipped=clipped), rounds)
    schedule = StepSchedule(noise_multiplier=answer, sampling_probability=probability, adjacency=adjacency, clipped=clipped)
    _, composed = timed(lambda: schedule.epsilon(steps, delta), rounds)
    given = f"{epsilon:g} | {delta:.0e} | {probability:g} | {steps:,} | {adjacency} | {clipped}".replace("e-0", "e-")
    return f"| {given} | {answer:.4f} | {composed:.2f} | {solved:.2f} |"


def timed(call, rounds):
    """What it returns, and the median of its seconds."""
    seconds = []
    for _ in range(rounds):
        pld._composed.cache_clear()
        poisson._log_moments.cache_clear()
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


if __name__ == "__main__":
    main()
