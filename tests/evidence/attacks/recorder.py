"""Records what a pipeline does with private data, and replays it with other data and the same random answers.

Everything that hushvec draws, it draws in one of a few functions of its core. Here each of them is wrapped: a recording keeps its
name, its public arguments, the private rows it was given, and its answer; a replay gives the recorded answer whatever the rows are.
Then two neighbouring inputs must leave the same trace: what differs was decided by the data.
"""

import contextlib
from dataclasses import dataclass, field

import numpy as np

from hushvec._native import _core
from hushvec.budget import PrivacyBudget

# name: (places of the private rows, of what is written to, of the key stream) among the positional arguments; None where there is none
DRAWS = {
    "clip_and_noise": (0, 3, 4),
    "clip_and_noise_keyed": (0, 3, 4),
    "privunit": (0, 4, 5),
    "privunit_keyed": (0, 4, 5),
    "randomized_response": (0, None, 3),
    "gumbel_top_k": (0, None, 4),
    "bit_reports": (0, None, 3),
    "perturb_bits": (0, None, 3),
    "hadamard_reports": (0, None, 5),
    "poisson_sample": (None, None, 2),
}


@dataclass
class Trace:
    """What happened, in order.

    Args:
        steps: ("charge", amounts) and ("draw", name, public arguments, shape and dtype of the rows).
        rows: the private rows of each draw.
        answers: of each draw.
        result: what the pipeline returned, or the exception it raised.
    """

    steps: list = field(default_factory=list)
    rows: list = field(default_factory=list)
    answers: list = field(default_factory=list)
    result: object = None

    @property
    def charges(self):
        return [step for step in self.steps if step[0] == "charge"]

    @property
    def draws(self):
        return [step for step in self.steps if step[0] == "draw"]


def record(pipeline, data):
    """The trace of pipeline(data)."""
    trace = Trace()
    with _wrapped(trace, None):
        trace.result = pipeline(data)
    return trace


def replay(pipeline, data, recorded):
    """The trace of pipeline(data) with the recorded answers."""
    trace = Trace()
    with _wrapped(trace, iter(recorded.answers)):
        trace.result = pipeline(data)
    return trace


def refused(pipeline, data):
    """(trace, exception) of a pipeline that must refuse its data; None for the exception where it did not."""
    trace = Trace()
    with _wrapped(trace, None):
        try:
            trace.result = pipeline(data)
        except (ValueError, TypeError) as error:
            return trace, error
    return trace, None


@contextlib.contextmanager
def _wrapped(trace, answers):
    originals = {name: getattr(_core, name) for name in DRAWS} | {"ClippedSum": _core.ClippedSum}
    consume = PrivacyBudget.consume

    def charge(budget, epsilon=None, delta=0.0, **rest):
        rest.pop("charge_id", None)  # of a job: names it, and is drawn from its key
        trace.steps.append(("charge", epsilon, delta, tuple(sorted(rest.items()))))
        return consume(budget, epsilon, delta, **rest)

    try:
        for name in DRAWS:
            setattr(_core, name, _draw(name, originals[name], trace, answers))
        _core.ClippedSum = _sums(originals["ClippedSum"], trace, answers)
        PrivacyBudget.consume = charge
        yield
    finally:
        for name, original in originals.items():
            setattr(_core, name, original)
        PrivacyBudget.consume = consume


def _draw(name, original, trace, answers):
    place_of_rows, place_of_out, place_of_stream = DRAWS[name]

    def draw(*arguments, **named):
        hidden = (place_of_rows, place_of_out, place_of_stream)
        public = tuple(_plain(value) for place, value in enumerate(arguments) if place not in hidden)
        rows = None if place_of_rows is None else np.array(arguments[place_of_rows])
        form = None if rows is None else (rows.shape, str(rows.dtype))
        trace.steps.append(("draw", name, public, tuple(sorted(named.items())), form))
        trace.rows.append(rows)
        if answers is None:
            answer = original(*arguments, **named)
            kept = np.array(arguments[place_of_out]) if place_of_out is not None else answer
        else:
            kept = answer = next(answers, None)
            if place_of_out is not None:
                out = np.asarray(arguments[place_of_out])
                out[...] = kept if np.shape(kept) == out.shape else 0  # a draw of another form is in the trace
                answer = None
        trace.answers.append(kept)
        return answer

    return draw


def _sums(original, trace, answers):
    class Sum:
        """A ClippedSum, all of whose rows are private."""

        def __init__(self, *settings):
            self._settings, self._sum, self._rows = settings, original(*settings), []

        def __getattr__(self, name):
            return getattr(self._sum, name)

        def add(self, parts):
            self._sum.add(parts)
            self._rows += [np.concatenate([_numbers(part).reshape(len(part), -1) for part in parts], axis=1)]

        def release(self, out, source):
            # how many rows a batch holds is no argument of the noise, and may differ: an example is there or not
            trace.steps.append(("draw", "ClippedSum.release", _plain(self._settings), (), [np.shape(part) for part in out]))
            trace.rows.append(np.concatenate(self._rows) if self._rows else None)
            self._rows = []
            if answers is None:
                self._sum.release(out, source)
            else:
                self._sum.reset()
                for part, kept in zip(out, next(answers), strict=True):
                    _numbers(part)[...] = kept
            trace.answers.append([_numbers(part).copy() for part in out])

    return Sum


def _numbers(part):
    """The memory of an array of numpy or torch."""
    return part.numpy() if hasattr(part, "numpy") else np.asarray(part)


def _plain(value):
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, (list, tuple)):
        return tuple(_plain(one) for one in value)
    return value
