"""A client's update made private by hushvec, Flower's LocalDpMod and NVFlare's SVTPrivacy: time, cosine, audited epsilon. Prints JSON.

    python -m venv FLOWER; FLOWER/bin/pip install hushvec flwr==1.42.0
    python -m venv NVFLARE; NVFLARE/bin/pip install hushvec nvflare==2.9.0
    python bench/python/federated.py speed --flower FLOWER/bin/python --nvflare NVFLARE/bin/python      # 2 minutes
    python bench/python/federated.py audit --flower FLOWER/bin/python --nvflare NVFLARE/bin/python      # 10 minutes on two cores

In a source tree: PYTHONPATH=python. All clip at 1.0 and claim epsilon 10, delta 1e-5, where they can be given them; SVTPrivacy has an
epsilon for choosing elements and one for releasing them, and no clip norm but a bound for each element. The frameworks' own classes
are called, with their messages (stand-ins for Flower's in the audit, which needs a million), on updates that are the model's change.

speed   One release of 7,000,000 parameters and one of a LoRA adapter, wall-clock, all threads that a library takes by itself; the
        contestants take turns. Cosine: between the update, a random direction of length 1, and what is released, mean of the rounds.
audit   Two updates of 8 parameters, as far apart as a replaced client can make them: 8/sqrt(8) everywhere, and -8/sqrt(8), which all
        of them clip. The event is a half line of the sum of what is released. Its end is chosen with releases that are not counted
        afterwards, so that epsilon >= ln((a - delta) / b) at confidence 99.9 %, by Clopper and Pearson's bounds on the two
        probabilities, whatever the noise is. "noise": the epsilon, by theorem 8 of Balle and Wang, of Gaussian noise with the
        standard deviation that was seen, for updates that are 2 clip norms apart.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from processes import ONE_THREAD, Process, answer_all, versions

CLIP_NORM, EPSILON, DELTA = 1.0, 10.0, 1e-5
SEVEN_MILLION = [(5000, 700)] + 10 * [(500, 700)]
ADAPTER = 16 * [(8, 768), (768, 8)]  # rank 8 for the queries and values of 8 layers
SIZES = {"7,000,000": SEVEN_MILLION, "196,608": ADAPTER}
AUDITED = 8
STRETCH = 8.0  # the audited updates are longer than the clip norm: a clip is part of what is audited
CONFIDENCE = 0.999
AT_ONCE, PILOT = 200_000, 5_000  # releases of a process, and of each update to choose the event by
# contestant -> (where it runs, which class, what it is given beside the claim)
CONTESTANTS = {
    "hushvec clip_and_noise_update": ("hushvec", "update", {}),
    "hushvec mod for Flower": ("flower", "own_mod", {}),
    "hushvec filter for NVFlare": ("nvflare", "own_filter", {}),
    "Flower LocalDpMod, sensitivity 2": ("flower", "local_dp", {"sensitivity": 2.0}),
    "Flower LocalDpMod, sensitivity 1": ("flower", "local_dp", {"sensitivity": 1.0}),
    "Flower LocalDpMod, sensitivity 1e-4": ("flower", "local_dp", {"sensitivity": 1e-4}),
    "NVFlare SVTPrivacy, epsilon 5 + 5": ("nvflare", "svt", {"epsilon": 5.0, "epsilon_release": 5.0}),
    "NVFlare SVTPrivacy, defaults": ("nvflare", "svt", {}),
}
# Releases of the update for which the event is unlikely; those of the other one are a tenth. No more than ln(n / 7) can be seen.
RELEASES = {
    "hushvec clip_and_noise_update": 1_200_000,
    "Flower LocalDpMod, sensitivity 2": 1_200_000,
    "Flower LocalDpMod, sensitivity 1": 1_200_000,
    "Flower LocalDpMod, sensitivity 1e-4": 1_200_000,
    "NVFlare SVTPrivacy, epsilon 5 + 5": 100_000,
    "NVFlare SVTPrivacy, defaults": 100_000,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("speed", "audit"))
    parser.add_argument("--flower", default=sys.executable, metavar="PYTHON", help="interpreter that has flwr and hushvec")
    parser.add_argument("--nvflare", default=sys.executable, metavar="PYTHON", help="interpreter that has nvflare and hushvec")
    parser.add_argument("--rounds", type=int, default=20, help="of speed (default 20)")
    parser.add_argument("--share", type=float, default=1.0, help="of the releases of an audit (default 1)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="of an audit at a time (default: one for each core)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        answer_all(answer)
        return
    if options.part is None:
        parser.error("part must be speed or audit")
    import hushvec
    from machine import facts

    pythons = {"hushvec": sys.executable, "flower": options.flower, "nvflare": options.nvflare}
    about = facts(hushvec.backends())
    machine = {**about["machine"], "python": about["software"]["python"], "versions": {}}
    for python in dict.fromkeys(pythons.values()):
        process = Process(python, __file__)
        machine["versions"] |= process.ask(do="versions")
        process.close()
    results = speed(pythons, options.rounds) if options.part == "speed" else audit(pythons, options.share, options.processes)
    json.dump({"date": about["date"], "machine": machine, **results}, sys.stdout, indent=1)
    print()


# ---- speed


def speed(pythons, rounds):
    processes = {library: Process(python, __file__) for library, python in pythons.items()}
    results = []
    for size in SIZES:
        answers, reason = {name: [] for name in CONTESTANTS}, {}
        for turn in range(rounds + 1):  # the first warms up
            for name, (library, _, _) in CONTESTANTS.items():
                if name in reason:
                    continue
                print(f"{size} parameters, turn {turn} of {rounds}, {name}", file=sys.stderr)
                answered = processes[library].ask(do="speed", name=name, size=size)
                if "failed" in answered:
                    reason[name] = answered["failed"]
                elif turn:
                    answers[name].append(answered)
        for name, seen in answers.items():
            results.append({
                "name": name,
                "parameters": size,
                "seconds": [round(one["seconds"], 6) for one in seen],
                "cosine": statistics.mean(one["cosine"] for one in seen) if seen else None,
                "claimed": seen[0]["claimed"] if seen else None,
                "not_run": reason.get(name),
            })  # fmt: skip
    for process in processes.values():
        process.close()
    return {"rounds": rounds, "speed": results}


# ---- audit


def audit(pythons, share, processes):
    """All releases in parts of AT_ONCE, so many processes at a time; then what the sums of each contestant show."""
    counts = {name: {1: int(share * count) // 10, -1: int(share * count)} for name, count in RELEASES.items()}
    tasks = [
        (name, pythons[CONTESTANTS[name][0]], sign, min(AT_ONCE, PILOT + count - first))
        for name, signs in counts.items()
        for sign, count in signs.items()
        for first in range(0, PILOT + count, AT_ONCE)
    ]
    with ThreadPoolExecutor(processes) as pool:
        parts = list(pool.map(lambda task: released(*task), tasks))
    found = [judged(name, counts[name], [part for part in parts if part["name"] == name]) for name in RELEASES]
    return {"parameters": AUDITED, "confidence": CONFIDENCE, "audit": found}


def released(name, python, sign, count):
    """The sums of so many releases, over sqrt(AUDITED): along the line that the two updates lie on."""
    import numpy as np

    process = Process(python, __file__, ONE_THREAD)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sums.npy")
        answered = process.ask(do="sums", name=name, sign=sign, count=count, path=path)
        process.close()
        sums = None if "failed" in answered else np.load(path)
    print(f"{name}: {count:,} releases", file=sys.stderr)
    return {"name": name, "sign": sign, "sums": sums, **answered}


def judged(name, counts, parts):
    """The first PILOT sums of each update choose the event, the others are counted."""
    import numpy as np

    from hushvec.noise.calibration import gaussian_epsilon

    if failed := [part["failed"] for part in parts if "failed" in part]:
        return {"name": name, "not_run": failed[0]}
    sums = {sign: np.concatenate([part["sums"] for part in parts if part["sign"] == sign]) for sign in counts}
    epsilon, delta = parts[0]["claimed"]
    end = end_of_event(sums[1][:PILOT], sums[-1][:PILOT], counts[1], counts[-1], delta)
    hits, alarms = (int((sums[sign][PILOT:] >= end).sum()) for sign in (1, -1))
    lower, spread = lower_bound(hits, counts[1], alarms, counts[-1], delta), float(sums[-1].std(ddof=1))
    gaussian = CONTESTANTS[name][1] != "svt"
    return {
        "name": name,
        "claimed": [epsilon, delta],
        "releases": [counts[1], counts[-1]],
        "event": f"sum / sqrt({AUDITED}) >= {end:.6g}",
        "counts": [hits, alarms],
        "epsilon_lower": lower,
        "epsilon_ceiling": lower_bound(counts[1], counts[1], 0, counts[-1], delta),
        "refuted": lower > epsilon,
        "noise_sd": spread,
        "noise_epsilon": float(gaussian_epsilon(DELTA, spread / (2 * CLIP_NORM))) if gaussian else None,
        "not_run": None,
    }


def end_of_event(likelier, other, rows, other_rows, delta):
    """Where the half line begins: the bound is the largest that is expected if the two sums are normal."""
    import numpy as np

    mean, spread = [float(side.mean()) for side in (likelier, other)], [float(side.std(ddof=1)) for side in (likelier, other)]
    normal = statistics.NormalDist()
    best, chosen = -1.0, mean[0]
    for z in np.linspace(0, 7, 141):
        end = mean[1] + z * spread[1]
        a, b = (normal.cdf((m - end) / s) for m, s in zip(mean, spread))
        seen = other_rows * b
        alarms = min(other_rows, round(seen + 2 * math.sqrt(seen)))  # what is seldom exceeded
        bound = lower_bound(int(rows * a), rows, alarms, other_rows, delta)
        if bound > best:
            best, chosen = bound, end
    return chosen


def lower_bound(hits, rows, alarms, other_rows, delta):
    """ln((a - delta) / b), at least 0: a is off with a tenth of what the confidence leaves, b with the rest."""
    from hushvec._util.statistics import clopper_pearson_lower, clopper_pearson_upper

    left = 1 - CONFIDENCE
    a = clopper_pearson_lower(hits, rows, left / 10) - delta
    b = clopper_pearson_upper(alarms, other_rows, left - left / 10)
    return max(0.0, math.log(a / b)) if a > 0 else 0.0


# ---- in a worker: an opener gives a function that prepares an update's release, and one that says what the last release claims. A
# prepared release returns the seconds that the library took, and its arrays; messages are made before and read after.

_OPENED, _PREPARED = {}, {}


def answer(do, name=None, size=None, sign=0, count=0, path=None):
    import numpy as np

    if do == "versions":
        return versions(("hushvec", "numpy", "flwr", "nvflare"))
    if name not in _OPENED:
        _, kind, terms = CONTESTANTS[name]
        logging.disable(logging.CRITICAL)
        _OPENED[name] = OPENERS[kind](**terms)
    prepare, claimed = _OPENED[name]
    if do == "speed":
        if (name, size) not in _PREPARED:
            update = direction(SIZES[size])
            _PREPARED[name, size] = update, prepare(update)
        update, release = _PREPARED[name, size]
        seconds, found = release()
        return {"seconds": seconds, "cosine": cosine(update, found), "claimed": claimed()}
    release = prepare([np.full(AUDITED, sign * STRETCH / math.sqrt(AUDITED), np.float32)], many=True)
    sums = np.array([release()[1][0].sum(dtype=np.float64) for _ in range(count)])
    np.save(path, sums / math.sqrt(AUDITED))
    return {"claimed": claimed()}


def direction(shapes):
    import numpy as np

    rng = np.random.default_rng(11)
    parts = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    length = math.sqrt(sum(float(np.vdot(part, part)) for part in parts))
    return [part / np.float32(length) for part in parts]


def cosine(update, found):
    import numpy as np

    def product(left, right):
        return sum(float(np.dot(a.ravel().astype(np.float64), b.ravel().astype(np.float64))) for a, b in zip(left, right))

    return product(update, found) / math.sqrt(product(update, update) * product(found, found))


def named(update):
    return {f"layer {number}": part for number, part in enumerate(update)}


def clock(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def same_claim():
    return [EPSILON, DELTA]


def own_noise():
    """Of so many rounds that a benchmark does not run out of them: each has the noise of one round at EPSILON and DELTA."""
    from hushvec.noise.calibration import gaussian_sigma

    multiplier = float(gaussian_sigma(EPSILON, DELTA, 2 * CLIP_NORM)) / CLIP_NORM
    noise = {"clip_norm": CLIP_NORM, "delta": DELTA, "noise_multiplier": multiplier}
    return {**noise, "rounds": 10_000, "persist_key": "bench", "store": "memory"}


def open_update():
    from hushvec.federated import clip_and_noise_update

    def prepare(update, many=False):
        update = named(update)

        def release():
            seconds, (values, _) = clock(lambda: clip_and_noise_update(update, clip_norm=CLIP_NORM, epsilon=EPSILON, delta=DELTA))
            return seconds, list(values.values())

        return release

    return prepare, same_claim


class StandIn:
    """What a mod asks of a message and of a record of arrays, without Flower's checks and serialization, which take most of a call."""

    def __init__(self, update):
        self.update, self.content, self.array_records = update, self, {"arrays": self}

    def has_error(self):
        return False

    def keys(self):
        return list(named(self.update))

    def to_numpy_ndarrays(self):
        return [part.copy() for part in self.update]

    def __setitem__(self, name, record):
        self.sent = record

    def __getitem__(self, name):
        return self.sent


def open_mod(mod):
    """A mod of Flower between a message with a model of zeros and a client whose training adds the update to it."""
    import numpy as np
    from flwr.app import Array, ArrayRecord, Context, Message, Metadata, RecordDict
    from flwr.clientapp.mod import localdp_mod

    def record(update):
        return ArrayRecord({name: Array(part) for name, part in named(update).items()})

    context = Context(run_id=1, node_id=7, node_config={}, state=RecordDict(), run_config={})
    nodes = {"run_id": 1, "message_id": "m", "src_node_id": 1, "dst_node_id": 7, "reply_to_message_id": "", "group_id": "1"}
    metadata = Metadata(**nodes, created_at=time.time(), ttl=1e6, message_type="train")

    def prepare(update, many=False):
        zeros = [np.zeros_like(part) for part in update]
        if many:  # LocalDpMod then answers with plain arrays
            localdp_mod.Array, localdp_mod.ArrayRecord = (lambda array: array), dict
        message = StandIn(zeros) if many else Message(metadata=metadata, content=RecordDict({"arrays": record(zeros)}))
        trained = record(update)
        reply = StandIn(update) if many else Message(content=RecordDict({"arrays": trained}), reply_to=message)

        def release():
            reply.content["arrays"] = trained
            seconds, sent = clock(lambda: mod(message, context, lambda *_: reply))
            return seconds, [array if many else array.numpy() for array in sent.content["arrays"].values()]

        return release

    return prepare, same_claim


def open_local_dp(sensitivity):
    from flwr.clientapp.mod import LocalDpMod

    return open_mod(LocalDpMod(clipping_norm=CLIP_NORM, sensitivity=sensitivity, epsilon=EPSILON, delta=DELTA))


def open_own_mod():
    from hushvec.integrations.flower import PrivateUpdates

    return open_mod(PrivateUpdates(**own_noise()))


def open_filter(chosen, claimed):
    """A filter of NVFlare, called as NVFlare calls it."""
    from nvflare.apis.dxo import DXO, DataKind, from_shareable
    from nvflare.apis.fl_context import FLContext

    context = FLContext()

    def prepare(update, many=False):
        def release():
            result = DXO(DataKind.WEIGHT_DIFF, named(update)).to_shareable()
            seconds, sent = clock(lambda: chosen.process(result, context))
            return seconds, list(from_shareable(sent).data.values())

        return release

    return prepare, claimed


def open_svt(**terms):
    from nvflare.app_common.filters.svt_privacy import SVTPrivacy

    chosen = SVTPrivacy(**terms)
    return open_filter(chosen, lambda: [chosen.get_privacy_ledger()[-1]["epsilon_total"], 0.0])


def open_own_filter():
    from hushvec.integrations.nvflare import PrivateUpdates

    return open_filter(PrivateUpdates(**own_noise()), same_claim)


OPENERS = {
    "update": open_update,
    "own_mod": open_own_mod,
    "local_dp": open_local_dp,
    "own_filter": open_own_filter,
    "svt": open_svt,
}

if __name__ == "__main__":
    main()
