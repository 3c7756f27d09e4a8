"""Discrete Gaussian samples by hushvec and by other libraries, beside hushvec's exact Gaussian pass. Prints JSON.

    pip install opendp
    python bench/python/discrete.py                                                       # 3 minutes
    python bench/python/discrete.py --python diffprivlib=ENV/bin/python --python ...      # of environments of their own

hushvec fills 2^24 integers; the exact pass is `clip_and_noise` of as many float32, in rows of 1,024. Other libraries draw as many as
half a second allows. All take turns with one thread, in processor time, so that other programs count little. A ratio is formed in each
round, and the median counts. Before that, each library's samples are checked: mean and variance within 6 standard errors, if it
draws 1,000 or more, and new ones at a second call.

Libraries: opendp; python-dp (Google's, which adds rounded noise to integers, not a discrete Gaussian); tmlt-core; tensorflow-privacy
(with tensorflow 2.15); diffprivlib (with scikit-learn below 1.6).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from itertools import chain

from processes import ONE_THREAD, Process, answer_all, versions

SIGMAS = (4.0, 100.0, 3.2e5)
SAMPLES = 1 << 24
ROW = 1024
ENOUGH = 0.5  # seconds of a call
FEW = 1000  # samples that say little about a variance
OURS, EXACT_PASS = "hushvec, int64", "hushvec exact pass, float32"
MOST = 1.3  # times the exact pass that a sample may take
# contestant -> (library, key stream believed secure, exact law)
CONTESTANTS = {
    OURS: ("hushvec", True, True),
    "hushvec, int32": ("hushvec", True, True),
    EXACT_PASS: ("hushvec", True, True),
    "OpenDP": ("opendp", True, True),
    "Tumult Core": ("tmlt-core", True, True),
    "Google's, by PyDP": ("python-dp", True, False),
    "diffprivlib": ("diffprivlib", True, False),
    "TensorFlow Privacy": ("tensorflow-privacy", False, False),
}
LIBRARIES = tuple(dict.fromkeys(library for library, *_ in CONTESTANTS.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PYTHON", help=f"of {', '.join(LIBRARIES[1:])}")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        answer_all(answer)
        return
    pythons = dict(one.split("=", 1) for one in options.python)
    if unknown := set(pythons) - set(LIBRARIES):
        parser.error(f"--python must name one of {', '.join(LIBRARIES)}, got {', '.join(sorted(unknown))}")
    import hushvec
    from machine import facts

    about = facts(hushvec.backends())
    machine = {**about["machine"], "python": about["software"]["python"], "versions": {}}
    processes = {library: Process(pythons.get(library, sys.executable), __file__, ONE_THREAD) for library in LIBRARIES}
    for library, process in processes.items():
        machine["versions"] |= process.ask(do="versions", name=library)
    results = list(chain.from_iterable(compared(sigma, processes, options.rounds) for sigma in SIGMAS))
    for process in processes.values():
        process.close()
    found = {"samples": SAMPLES, "rounds": options.rounds, "results": results, "claims": claims(results)}
    json.dump({"date": about["date"], "machine": machine, **found}, sys.stdout, indent=1)
    print()
    sys.exit(any(one["complaint"] for one in results))


def compared(sigma, processes, rounds):
    """A row for each contestant; the first turn finds how many samples a call draws, and checks them."""
    answers, counts, complaints, reasons = {name: [] for name in CONTESTANTS}, {}, {}, {}
    for turn in range(rounds + 1):
        for name, (library, *_) in CONTESTANTS.items():
            if name in reasons or complaints.get(name):
                continue
            print(f"sigma {sigma:g}, turn {turn} of {rounds}, {name}", file=sys.stderr)
            if turn:
                answered = processes[library].ask(do="draw", name=name, sigma=sigma, count=counts[name])
            else:
                answered = processes[library].ask(do="prepare", name=name, sigma=sigma)
                counts[name], complaints[name] = answered.get("count"), answered.get("complaint")
            if "failed" in answered:
                reasons[name] = answered["failed"]
            elif turn:
                answers[name].append(answered["ns"])
    return [
        {
            "name": name,
            "sigma": sigma,
            "secure": secure,
            "exact": exact,
            "samples": counts.get(name),
            "ns": [round(ns, 4) for ns in answers[name]],
            "complaint": complaints.get(name),
            "not_run": reasons.get(name),
        }
        for name, (_, secure, exact) in CONTESTANTS.items()
    ]


def claims(results):
    """Whether a sample takes at most MOST times as long as one of the exact pass, for each sigma."""
    found = []
    for sigma in SIGMAS:
        ns = {one["name"]: one["ns"] for one in results if one["sigma"] == sigma}
        measured = statistics.median(a / b for a, b in zip(ns[OURS], ns[EXACT_PASS]))
        verdict = "holds" if measured <= MOST else "does not hold"
        found.append({"sigma": sigma, "at_most": MOST, "measured": measured, "verdict": verdict})
    return found


# ---- in a worker: an opener gives a function that draws so many samples

_DRAWS = {}


def answer(do, name, sigma=0.0, count=0):
    if do == "versions":
        return versions((name, "numpy") if name == "hushvec" else (name,))
    if (name, sigma) not in _DRAWS:
        _DRAWS[name, sigma] = OPENERS[CONTESTANTS[name][0]](name, sigma)
    draw = _DRAWS[name, sigma]
    if do == "draw":
        start = time.process_time()
        draw(count)
        return {"ns": (time.process_time() - start) / count * 1e9}
    count = SAMPLES if CONTESTANTS[name][0] == "hushvec" else 1
    while True:
        draw(count)  # the first call of a size may compile
        start = time.process_time()
        first = draw(count)
        if time.process_time() - start >= ENOUGH or count >= SAMPLES:
            break
        count *= 2
    return {"count": count, "complaint": None if name == EXACT_PASS else complaint(first, draw, count, sigma)}


def complaint(first, draw, count, sigma):
    """Why the samples are not of the law, or None."""
    import numpy as np

    first = np.array(first)
    if first.dtype.kind != "i":
        return f"not integers but {first.dtype}"
    mean, variance = first.mean(), first.astype(np.float64).var()
    if count >= FEW and abs(mean) > 6 * sigma / math.sqrt(count):
        return f"mean {mean:.6g}"
    if count >= FEW and abs(variance / sigma**2 - 1) > 6 * math.sqrt(2 / count):
        return f"variance {variance:.6g}"
    return "the same samples again" if count >= FEW and (np.array(draw(count)) == first).all() else None


def open_hushvec(name, sigma):
    import hushvec
    import numpy as np

    if name == EXACT_PASS:
        rows = np.random.default_rng(1).standard_normal((SAMPLES // ROW, ROW), dtype=np.float32)
        out = np.empty_like(rows)
        return lambda count: hushvec.clip_and_noise(rows, 1.0, 0.6, out=out)
    out = np.empty(SAMPLES, name.split()[-1])
    return lambda count: hushvec.discrete_gaussian(count, sigma, out=out)


def open_opendp(name, sigma):
    import numpy as np
    import opendp.prelude as dp

    dp.enable_features("contrib")
    add = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float), scale=sigma)
    return lambda count: add(np.zeros(count, np.int64))


def open_tumult(name, sigma):
    from tmlt.core.random.discrete_gaussian import sample_dgauss

    return lambda count: [sample_dgauss(int(sigma) ** 2) for _ in range(count)]


def open_google(name, sigma):
    from pydp.algorithms.numerical_mechanisms import GaussianMechanism

    add = GaussianMechanism.create_from_standard_deviation(sigma).add_noise
    return lambda count: [add(0) for _ in range(count)]


def open_diffprivlib(name, sigma):
    from diffprivlib.mechanisms import GaussianDiscrete

    mechanism = GaussianDiscrete(epsilon=1.0, delta=1e-5)
    mechanism._scale = sigma  # which it computes from epsilon and delta
    return lambda count: [mechanism.randomise(0) for _ in range(count)]


def open_tensorflow(name, sigma):
    import tensorflow as tf
    from tensorflow_privacy.privacy.dp_query.discrete_gaussian_utils import sample_discrete_gaussian

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return lambda count: sample_discrete_gaussian(int(sigma), (count,), tf.int64).numpy()


OPENERS = {
    "hushvec": open_hushvec,
    "opendp": open_opendp,
    "tmlt-core": open_tumult,
    "python-dp": open_google,
    "diffprivlib": open_diffprivlib,
    "tensorflow-privacy": open_tensorflow,
}

if __name__ == "__main__":
    main()
