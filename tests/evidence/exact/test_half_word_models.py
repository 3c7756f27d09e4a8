"""A model of the kernel of version 3, level 0 by itself and the reference behind it, gives the released bits; models with one fault
each do not, on the kind of rows that test_half_words.py releases, too."""

import functools

import numpy as np
import pytest

from evidence.exact.calls import Call, outputs
from evidence.exact.rows import around_the_ball, between_integers
from evidence.reference import chacha, clip, exact, half, release

SEED = 3030
LANES = 8  # of a vector that settles open pairs
FULL = 64  # open pairs or samples after which the queue is settled


def calls():
    rng = np.random.default_rng(51)
    for law in ("gaussian", "laplacian"):
        options = dict(law=law, sigma=0.3, seed=SEED, cipher="chacha8", version=3, threads=2)
        yield Call(around_the_ball(rng, 4000, 257, 1.0, "float32"), **options)
        for shape in ((3, 100), (7, 257)):
            rows = between_integers(law, shape, 1000.0, 0.3, seed=SEED, cipher="chacha8")
            yield Call(rows, clip_norm=1000.0, **options)


class Model:
    """One call: what level 0 finds in its words, and which pairs (Gaussian) or samples (Laplace) it leaves open."""

    def __init__(self, hooks, backend, call):
        self.law = call.law
        self.stream = dict(key=chacha.seed_key(call.seed), nonce=0, rounds=call.rounds)
        sigma, self.g = clip.grid(call.sigma, call.clip_norm, half.GRID_BITS)
        self.s, self.size = sigma / self.g, call.rows.size
        self.words, self.more = half.call_words(functools.partial(release.call_words, *self.stream.values()), self.size)
        x = np.zeros(2 * self.words.size)
        x[: self.size] = clip.clipped_rows(call.rows, call.clip_norm, self.g).reshape(-1)
        self.x = x.astype(np.float32)
        if self.law == "gaussian":
            n_cosine, n_sine, *_, is_open = hooks.half_gaussian(backend, self.words, *release.box_muller_words(self.x), self.s)
            self.level_0 = release.in_sample_order(np.asarray(n_cosine), np.asarray(n_sine), x.size)
        else:
            self.halves = release.in_sample_order(self.words >> np.uint32(16), self.words & np.uint32(0xFFFF), x.size)
            n, _, _, is_open = hooks.half_laplace(backend, self.halves, self.x, self.s)
            self.level_0 = np.asarray(n)
        self.open = np.flatnonzero(np.asarray(is_open))  # pairs, or samples

    def release(self, *, settled=None, number=lambda i: i, more=lambda words: words):
        """The release where of the open ones only `settled` are settled, `number` is the pair whose refinement is read, and `more`
        what becomes of the refinement's words."""
        chosen = self.open if settled is None else settled(self.open)
        n = self.level_0.astype(np.int64)
        refinement = more(self.more)
        if self.law == "gaussian":
            first = chosen // chacha.PAIRS_PER_GROUP * chacha.GROUP + chosen % chacha.PAIRS_PER_GROUP
            second = first + chacha.PAIRS_PER_GROUP
            a, b = half.gaussian_words(self.words[chosen], refinement[number(chosen)])
            x = self.x[first], self.x[second]
            n[first], n[second] = exact.gaussian(a, b, *x, self.s, pairs=chosen, use_filter=True, **self.stream)
        else:
            pairs = number(half.pair_of_sample(chosen))
            both = half.laplace_words(self.words[half.pair_of_sample(chosen)], refinement[pairs])
            is_first = chosen % chacha.GROUP < chacha.PAIRS_PER_GROUP
            words = np.where(is_first, *both)
            n[chosen] = exact.laplace(words, self.x[chosen], self.s, samples=chosen, use_filter=True, **self.stream)
        return (n * self.g).astype(np.float32)[: self.size]


def without_the_last_of_every_queue(opened):
    return np.delete(opened, np.append(np.arange(FULL - 1, opened.size, FULL), opened.size - 1))


def without_the_last_lane(opened):
    return np.delete(opened, np.arange(LANES - 1, opened.size, LANES))


MUTANTS = {
    "the queue loses its last one": dict(settled=without_the_last_of_every_queue),
    "the last lane of a vector is lost": dict(settled=without_the_last_lane),
    "nothing is settled": dict(settled=lambda opened: opened[:0]),
    "the refinement of the pair before": dict(number=lambda pairs: np.maximum(pairs - 1, 0)),
    "one refinement for two neighbors": dict(number=lambda pairs: pairs & ~1),
    "the refinement's halves are swapped": dict(more=lambda words: words << np.uint32(16) | words >> np.uint32(16)),
    "no refinement at all": dict(more=np.zeros_like),
    "the domain of the refinement is the main one": dict(more=None),
    "pairs of odd groups have the numbers of the group before": dict(number=lambda pairs: pairs - pairs // 128 % 2 * 128),
    "pairs have the numbers of their samples": dict(number=lambda pairs: np.minimum(pairs // 128 * 256 + pairs % 128, pairs[-1])),
}


@functools.cache
def models(hooks, backend):
    asked = list(calls())
    return [(Model(hooks, backend, call), got.reshape(-1)) for call, got in zip(asked, outputs(backend, asked), strict=True)]


def test_the_model_is_the_kernel(backend, hooks):
    for model, released in models(hooks, backend):
        np.testing.assert_array_equal(model.release(), released)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_model_with_a_fault_is_not(backend, hooks, name):
    """Rows that no half word decides find every fault; random ones nearly all."""
    for model, released in models(hooks, backend):
        if released.size > 10_000:
            continue
        fault = MUTANTS[name] if MUTANTS[name] != dict(more=None) else dict(more=lambda _, words=model.words: words)
        different = (model.release(**fault) != released).sum()
        assert different > 0, (model.law, released.size)


@pytest.mark.parametrize(("law", "share"), (("gaussian", 0.007), ("laplacian", 0.0038)))
def test_how_many_level_0_leaves_open(backend, hooks, law, share):
    """Of pairs and of samples, at s = 9.6; n = 514,048 and 1,028,096, within 5 standard deviations of a count."""
    for model, released in models(hooks, backend):
        if model.law == law and released.size > 10_000:
            of = model.words.size if law == "gaussian" else 2 * model.words.size
            assert abs(model.open.size - share * of) < 5 * np.sqrt(share * of), model.open.size / of
