"""What two runs on neighboring data leave behind, compared: files, printed lines, log lines, warnings, returned values, generators.

A run is `run(folder, data) -> anything`. Every number, text and tensor of what it leaves gets a name; `differences` says which differ.
Those that noise covers, and those of times and random names, are given as patterns, and must still agree in their forms.
"""

import contextlib
import gc
import io
import json
import logging
import os
import pickle
import random
import re
import warnings
from dataclasses import dataclass, fields, is_dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from hushvec.training import PoissonSampler, global_generators, opacus_engine

# Times: in texts they are cut out, in values they are named.
_TIMES = re.compile(
    r"""(['"]?\w*(?:_runtime|_per_second)['"]?)\W+[\d.e+-]+'?|\d\d:\d\d(?::\d\d)?|\d{4}-\d\d-\d\d|[\d.?]+ ?(?:it/s|s/it)"""
)
TIMES = ("*_runtime", "*_per_second", "*.seconds")


class Example(NamedTuple):
    """A text of so many tokens. Its class is that of its number."""

    number: int
    length: int

    @property
    def tokens(self):
        return [1 + (3 * self.number + place) % 30 for place in range(self.length)]


@dataclass(frozen=True)
class Data:
    """Eight places for examples, as the number of places is public; who is away is drawn by no sample."""

    examples: tuple
    draws: tuple
    leak: object = None   # called with the lengths of every private batch

    def saw(self, lengths):
        if self.leak is not None:
            self.leak(lengths)


EXAMPLES = tuple(Example(number, 4 + number % 2) for number in range(8))
DRAWS = ((0, 1, 2, 3, 4), (0,), (2, 5), (0, 1, 6, 7))
ALL = Data(EXAMPLES, DRAWS)
NEIGHBORS = {
    "one less": Data(EXAMPLES, tuple(tuple(one for one in draw if one) for draw in DRAWS)),   # the second sample is empty then
    "one longer": Data((Example(0, 9), *EXAMPLES[1:]), DRAWS),
}


def log_size(lengths):
    logging.getLogger("planted").info("a batch of %d", len(lengths))


def print_length(lengths):
    print("padded to", max(lengths, default=0))


# Name -> (what is planted, the neighbor that shows it, names that then differ). Dropout needs no plant, only no protection.
LEAKS = {
    "dropout of a batch": (None, "one less", ("generators.torch", "*.cpu")),
    "dropout of a length": (None, "one longer", ("generators.torch", "*.cpu")),
    "a log of the batch size": (log_size, "one less", ("logged.*",)),
    "a padded length": (print_length, "one longer", ("printed.*",)),
}


def left_by(run, folder, data, monkeypatch, *, protected=True):
    """Name -> what the run left. Its samples are those of `data`, its seeds are always the same."""
    with monkeypatch.context() as patched:
        patched.setattr(PoissonSampler, "sample", _drawn_from(data.draws))
        if not protected:   # as before anything kept generators apart
            for module, name in ((global_generators, "seed_from_system"), (global_generators, "_put_back"),
                                 (global_generators, "forget_draws"), (opacus_engine, "forget_draws")):
                patched.setattr(module, name, lambda *_: None)
        patched.setattr(gc, "collect", lambda *_: 0)   # a second for each run of a Trainer
        patched.setattr(tqdm, "monitor_interval", 0)   # a thread that draws a bar anew where a busy machine stops for ten seconds
        folder.mkdir()
        patched.chdir(folder)
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(5)
        with _heard() as heard:
            returned = run(folder, data)
        left = {"returned": returned, **heard(), "generators": generators()}
        files = {os.path.relpath(os.path.join(where, name), folder): _content(os.path.join(where, name))
                 for where, _, names in os.walk(folder) for name in names}
        return dict(_leaves("", {**left, "files": files}, str(folder)))


def differences(first, second, may_differ=()):
    """Names of what differs: in its form, or in its value where no pattern allows it."""
    found = sorted(set(first) ^ set(second))
    for name in sorted(set(first) & set(second)):
        one, other = first[name], second[name]
        allowed = any(fnmatchcase(name, pattern) for pattern in (*TIMES, *may_differ))
        if _form(one) != _form(other) or (one != other and not allowed):
            found.append(name)
    return found


def generators():
    """States of all that a host may write down."""
    return {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate(), "seed": torch.initial_seed()}


def _drawn_from(draws):
    drawn, original = {}, PoissonSampler.sample

    def sample(self):
        kept = original(self)   # which is counted
        kept[:] = next(drawn.setdefault(id(self), (self, iter(draws)))[1])
        return kept

    return sample


@contextlib.contextmanager
def _heard():
    printed, logged = io.StringIO(), io.StringIO()
    handler, loggers = logging.StreamHandler(logged), [logging.getLogger(name) for name in (None, "transformers", "flwr")]
    levels = [(one, one.level, one.propagate) for one in loggers]
    for one in loggers:
        one.setLevel(logging.INFO)
        one.propagate = False
        one.addHandler(handler)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield lambda: {
                "printed": printed.getvalue().splitlines(),
                "logged": logged.getvalue().splitlines(),
                "warned": [str(one.message) for one in warned],
            }
    finally:
        for one, level, propagate in levels:
            one.removeHandler(handler)
            one.setLevel(level)
            one.propagate = propagate


def _content(path):
    """A file's, as far as its kind is known: else its bytes."""
    with open(path, "rb") as file:
        content = file.read()
    if path.endswith(".safetensors"):
        from safetensors.torch import load

        return load(content)
    if path.endswith(".json"):
        return json.loads(content)
    if path.endswith(".journal"):
        kind, run_id, file_number, settings, steps = content.split(maxsplit=4)
        return {"kind": kind, "run_id": run_id, "file_number": file_number, "settings": settings, "steps": steps}
    for read in (lambda: torch.load(path, map_location="cpu", weights_only=False), lambda: pickle.loads(content)):
        try:
            return read()
        except Exception:
            continue
    return content


def _leaves(name, value, folder):
    if is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().view(-1).numpy() if value.dtype is torch.bfloat16 else value.detach().cpu().numpy()
    if isinstance(value, dict):
        yield name, ("keys", sorted(map(str, value)))
        for key, part in value.items():
            yield from _leaves(f"{name}.{key}" if name else str(key), part, folder)
    elif isinstance(value, (list, tuple)) and not all(isinstance(part, (int, float)) for part in value):
        yield name, ("length", len(value))
        for place, part in enumerate(value):
            yield from _leaves(f"{name}.{place}", part, folder)
    elif isinstance(value, (np.ndarray, np.generic)):
        yield name, ("array", str(value.dtype), value.shape, value.tobytes())
    elif isinstance(value, str):
        yield name, ("text", _TIMES.sub(r"\1", value.replace(folder, "")))
    elif isinstance(value, (bytes, int, float, list, tuple, type(None))):
        yield name, (type(value).__name__, value)
    elif hasattr(value, "state_dict"):
        yield from _leaves(name, value.state_dict(), folder)
    elif hasattr(value, "to_dict"):
        yield from _leaves(name, value.to_dict(), folder)
    else:
        yield name, ("a", type(value).__name__)


def _form(leaf):
    """All that says how large something is, and not what."""
    kind, *value = leaf
    return (kind, *value[:-1], len(value[-1])) if kind in ("array", "text", "bytes", "list", "tuple") else (kind,)
