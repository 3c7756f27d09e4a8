"""Sketches: they add up, travel as bytes, and refuse what does not belong to them without changing."""

import threading

import numpy as np
import pytest

import hushvec as hv
from collect.surveys import vocabulary
from hushvec.collect import BloomFilter, BloomSketch, Sketch, SketchError, Vocabulary

MECHANISMS = ("k_rr", "unary", "hadamard")


def filled(ours, seed=1, people=300):
    sketch = ours.sketch()
    sketch.add(ours.report([f"word{i % 7}" for i in range(people)], generator=hv.Generator.unsafe_seeded(seed)))
    return sketch


def collections():
    yield from ((vocabulary(40, 1.0, mechanism), Sketch) for mechanism in MECHANISMS)
    yield BloomFilter(100, 2, epsilon=2.0, cohorts=8), BloomSketch


@pytest.mark.parametrize(("ours", "kind"), list(collections()))
def test_parts_add_up(ours, kind):
    generator = hv.Generator.unsafe_seeded(3)
    reports = ours.report([f"word{i % 7}" for i in range(300)], generator=generator)
    cut = (lambda x, part: tuple(field[part] for field in x)) if kind is BloomSketch else (lambda x, part: x[part])
    whole, first, second = ours.sketch(), ours.sketch(), ours.sketch()
    whole.add(reports)
    first.add(cut(reports, slice(0, 1)))
    first.add(cut(reports, slice(1, 120)))
    second.add(cut(reports, slice(120, None)))
    second.merge(first)
    assert second.reports == whole.reports == 300
    assert second.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize(("ours", "kind"), list(collections()))
def test_threads_may_share_a_sketch(ours, kind):
    """Eight threads add the same reports and merge a sketch of them, 20 times each: no count is lost."""
    reports, sketch, one = ours.report([f"word{i % 7}" for i in range(2000)]), ours.sketch(), ours.sketch()
    one.add(reports)

    def work():
        for _ in range(20):
            sketch.add(reports)
            sketch.merge(one)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = ours.sketch()
    for _ in range(320):
        expected.merge(one)
    assert sketch.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize(("ours", "kind"), list(collections()))
def test_bytes_and_back(ours, kind):
    sketch = filled(ours)
    again = kind.from_bytes(sketch.to_bytes(), ours)
    assert again.to_bytes() == sketch.to_bytes() and again.reports == 300
    again.merge(sketch)
    assert again.reports == 600 and sketch.reports == 300


@pytest.mark.parametrize(("ours", "kind"), list(collections()))
def test_damaged_bytes_are_refused(ours, kind):
    """Cut anywhere, or with any one byte changed: one clear error each time."""
    data = filled(ours).to_bytes()
    for size in (0, 1, 15, 16, 71, 72, 103, 104, len(data) // 2, len(data) - 1):
        with pytest.raises(SketchError, match=r"data must be a (whole )?sketch"):
            kind.from_bytes(data[:size], ours)
    for place in (*range(80), len(data) // 2, len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(SketchError, match="data must be"):
            kind.from_bytes(changed, ours)
    with pytest.raises(SketchError, match="data must be a whole sketch"):
        kind.from_bytes(data + b"\0", ours)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04 something else", "data must be a sketch of hushvec, got other bytes"),
        (b"hushvec sketch\0\0" + bytes(20), "data must be a whole sketch, got 36 bytes, less than its header"),
        (b"hushvec sketch\0\0\x02" + bytes(200), "data must be a sketch of version 1, got version 2"),
    ],
)
def test_foreign_bytes_are_refused(data, message):
    with pytest.raises(SketchError, match=message):
        Sketch.from_bytes(data, vocabulary(40, 1.0, "k_rr"))


def test_bytes_that_no_reports_can_give_are_refused():
    """With a checksum that fits: whoever writes it can still not make a sketch that contradicts itself."""
    from collect.collect_reference import sketch_bytes

    ours = vocabulary(3, 1.0, "k_rr")
    for reports, numbers, message in (
        (5, [1, 2, 3], "its counts add up to 6, not to its 5 reports"),
        (5, [7, -2, 0], "data must hold counts >= 0, got -2"),
        (2**63, [0, 0, 0], r"data must hold at most 2\^62 reports"),
    ):
        with pytest.raises(SketchError, match=message):
            Sketch.from_bytes(sketch_bytes(1, ours.digest, reports, numbers), ours)
    unary = vocabulary(3, 1.0, "unary")
    with pytest.raises(SketchError, match="it counts 6 ones in 5 reports"):
        Sketch.from_bytes(sketch_bytes(1, unary.digest, 5, [1, 6, 0]), unary)
    filter_ = BloomFilter(2, 1, f=0.5, cohorts=1)
    with pytest.raises(SketchError, match="its cohorts do not add up to its 5 reports"):
        BloomSketch.from_bytes(sketch_bytes(2, filter_.digest, 5, [4, 0, 0]), filter_)
    with pytest.raises(SketchError, match="it counts more ones than reports"):
        BloomSketch.from_bytes(sketch_bytes(2, filter_.digest, 5, [5, 6, 0]), filter_)


def test_counts_that_wrap_around_to_their_reports_are_refused():
    """Four tallies of 2^62 add up to 0 modulo 2^64, as no reports have them."""
    from collect.collect_reference import sketch_bytes

    ours = vocabulary(4, 1.0, "k_rr")
    with pytest.raises(SketchError, match=f"its counts add up to {2**64}, not to its 0 reports"):
        Sketch.from_bytes(sketch_bytes(1, ours.digest, 0, [2**62] * 4), ours)
    filter_ = BloomFilter(2, 1, f=0.5, cohorts=4)
    with pytest.raises(SketchError, match="its cohorts do not add up to its 0 reports"):
        BloomSketch.from_bytes(sketch_bytes(2, filter_.digest, 0, [2**62] * 4 + [0] * 8), filter_)


@pytest.mark.parametrize("mechanism", (*MECHANISMS, "bloom"))
def test_sums_that_would_wrap_around_are_refused(mechanism):
    """A sketch of 2^62 reports is sound; two of them, or one and a single report, are more than fits, and change nothing."""
    from collect.collect_reference import sketch_bytes

    if mechanism == "bloom":
        ours, kind, one = BloomFilter(2, 1, f=0.5, cohorts=1), BloomSketch, 2
        numbers = [2**62, 2**62, 0]
    else:
        ours, kind, one = vocabulary(3, 1.0, mechanism), Sketch, 1
        numbers = [2**62] + [0] * (ours.oracle.tallies - 1)
    large = kind.from_bytes(sketch_bytes(one, ours.digest, 2**62, numbers), ours)
    small = ours.sketch()
    small.add(ours.report(["a"] if mechanism == "bloom" else ["word1"]))
    for first, second in ((large, large), (large, small), (small, large)):
        before = first.to_bytes()
        with pytest.raises(SketchError, match=r"both sketches must hold at most 2\^62 reports together, got \d+ here and \d+ in"):
            first.merge(second)
        assert first.to_bytes() == before


def test_forged_counts_do_not_get_in_by_a_merge():
    ours = vocabulary(3, 1.0, "k_rr")
    sketch = ours.sketch()
    for reports, tallies, message in (
        (2, [3, -1, 0], "other must hold counts >= 0, got -1"),
        (2, [1, 0, 0], "other must be a sound sketch: its counts add up to 1, not to its 2 reports"),
        (2**63, [0, 0, 0], r"other must hold at most 2\^62 reports"),
    ):
        forged = ours.sketch()
        forged.reports, forged._tallies = reports, np.array(tallies)
        with pytest.raises(SketchError, match=message):
            sketch.merge(forged)
    assert sketch.to_bytes() == ours.sketch().to_bytes()
    filter_ = BloomFilter(2, 1, f=0.5, cohorts=1)
    forged = filter_.sketch()
    forged.ones[0, 0] = 1
    with pytest.raises(SketchError, match="other must be a sound sketch: it counts more ones than reports"):
        filter_.sketch().merge(forged)


def test_the_largest_sketch_has_sound_p_values():
    """All 2^62 reports say one thing: half the sum of hits and signed sums is 2^62, and no 64-bit number holds the sum."""
    ours = vocabulary(3, 1.0, "hadamard")
    tallies = np.zeros(ours.oracle.tallies, np.int64)
    tallies[0] = 2**62
    successes, trials, probability = ours.oracle.null_counts(tallies, 2**62)
    assert probability == 0.5 and (successes >= 0).all() and (successes <= trials).all()


def test_bytes_are_bytes():
    with pytest.raises(TypeError, match="data must be bytes, got str"):
        Sketch.from_bytes("sketch", vocabulary(3, 1.0, "k_rr"))


OTHERS = [
    vocabulary(40, 1.0, "unary"),
    vocabulary(40, 1.1, "k_rr"),
    vocabulary(41, 1.0, "k_rr"),
    vocabulary(40, 1.0, "k_rr", words_per_person=2),
    Vocabulary([f"word{i}" for i in reversed(range(40))], 1.0, mechanism="k_rr"),
    vocabulary(39, 1.0, "k_rr", unknown="other"),
]


@pytest.mark.parametrize("other", OTHERS, ids=lambda o: f"{o.mechanism}-{len(o.words)}-{o.epsilon}")
def test_sketches_of_other_vocabularies_do_not_mix(other):
    ours = vocabulary(40, 1.0, "k_rr")
    sketch = filled(ours)
    before = sketch.to_bytes()
    with pytest.raises(SketchError, match="other must be a sketch of this vocabulary"):
        sketch.merge(other.sketch())
    with pytest.raises(SketchError, match="data must be a sketch of this vocabulary, got one of another"):
        Sketch.from_bytes(other.sketch().to_bytes(), ours)
    assert sketch.to_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 101}, "bits is 100 here and 101 there"),
        ({"hashes": 3}, "hashes is 2 here and 3 there"),
        ({"cohorts": 9}, "cohorts is 8 here and 9 there"),
        ({"salt": b"x"}, "salt is b'' here and b'x' there"),
        ({"epsilon": 2.1}, "permanent_law is"),
        ({"p": 0.4}, "instantaneous_law is"),
        ({"words_per_person": 2, "epsilon": 4.0}, "words_per_person is 1 here and 2 there"),
    ],
)
def test_filters_of_other_parameters_do_not_mix(change, message):
    setting = {"bits": 100, "hashes": 2, "epsilon": 2.0, "cohorts": 8}
    ours, other = BloomFilter(**setting), BloomFilter(**{**setting, **change})
    sketch = filled(ours)
    before = sketch.to_bytes()
    with pytest.raises(SketchError, match=message):
        sketch.merge(other.sketch())
    with pytest.raises(SketchError, match="data must be a sketch of this filter, got one of another"):
        BloomSketch.from_bytes(other.sketch().to_bytes(), ours)
    assert sketch.to_bytes() == before


@pytest.mark.parametrize(
    ("mechanism", "reports", "error", "message"),
    [
        ("k_rr", np.array([3, 40]), ValueError, r"codes must be in \[0, 40\), got 40 at position 1"),
        ("k_rr", np.array([-1]), ValueError, r"codes must be in \[0, 40\), got -1"),
        ("k_rr", np.array([0.5]), TypeError, "reports must be an array of whole numbers, got float64"),
        ("k_rr", "word1", TypeError, "reports must be an array of whole numbers"),
        ("hadamard", np.array([64]), ValueError, r"codes must be in \[0, 64\), got 64"),
        ("unary", np.zeros((3, 1), np.uint32), ValueError, r"reports must have shape \(n, 2\) for 40 bits, got \(3, 1\)"),
        ("unary", np.zeros((3, 2), np.uint8), TypeError, "reports must be an array of uint32 that hold packed bits, got uint8"),
        ("unary", np.array([[1, 1 << 8]], np.uint32), ValueError, "reports must have zeros past bit 39"),
    ],
)
def test_reports_that_are_none_are_not_counted(mechanism, reports, error, message):
    sketch = filled(vocabulary(40, 1.0, mechanism))
    before = sketch.to_bytes()
    with pytest.raises(error, match=message):
        sketch.add(reports)
    assert sketch.to_bytes() == before and sketch.reports == 300


@pytest.mark.parametrize(
    ("reports", "error", "message"),
    [
        ((np.array([8]), np.zeros((1, 4), np.uint32)), ValueError, r"codes must be in \[0, 8\), got 8"),
        ((np.array([-1]), np.zeros((1, 4), np.uint32)), ValueError, r"cohorts must be in \[0, 2\^32\)"),
        ((np.array([0.0]), np.zeros((1, 4), np.uint32)), TypeError, "cohorts must be whole numbers, got float64"),
        ((np.array([0, 1]), np.zeros((1, 4), np.uint32)), ValueError, "groups must have 1 elements, got 2"),
        ((np.array([0]), np.full((1, 4), 0xFFFFFFFF, np.uint32)), ValueError, "reports must have zeros past bit 99"),
        ((np.array([0]), np.zeros((1, 3), np.uint32)), ValueError, r"reports must have shape \(n, 4\) for 100 bits"),
        (np.zeros((1, 4), np.uint32), TypeError, "reports must be a pair of cohorts and bits, got ndarray"),
    ],
)
def test_bloom_reports_that_are_none_are_not_counted(reports, error, message):
    sketch = filled(BloomFilter(100, 2, epsilon=2.0, cohorts=8))
    before = sketch.to_bytes()
    with pytest.raises(error, match=message):
        sketch.add(reports)
    assert sketch.to_bytes() == before


def test_sketches_are_of_collections_and_merge_with_sketches():
    for kind in (Sketch, BloomSketch):
        with pytest.raises(TypeError, match="must be a"):
            kind("words")
    with pytest.raises(TypeError, match="other must be a Sketch, got BloomSketch"):
        vocabulary(3, 1.0, "k_rr").sketch().merge(BloomFilter(8, 1, f=0.5).sketch())
    with pytest.raises(TypeError, match="other must be a BloomSketch, got Sketch"):
        BloomFilter(8, 1, f=0.5).sketch().merge(vocabulary(3, 1.0, "k_rr").sketch())
