"""Memoised reports: averaging gains nothing, the number of words is limited, and the file survives what happens to it."""

import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest

import hushvec as hv
from collect.surveys import vocabulary
from hushvec.collect import BloomFilter, Memo, MemoError
from hushvec.errors import PrivacyBudgetExhaustedError

MECHANISMS = ("k_rr", "unary", "hadamard")


def one_word(ours, memo=None):
    return ours.report("word3", per="release", memo=memo)


# ---- averaging ----


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_averaging_memoised_reports_gains_nothing(mechanism):
    """300 reports of one word by one person. Fresh ones give the word away, although each has epsilon = 1; memoised ones are all one
    report. The collector takes the largest estimate; the chance is 1 in 20.
    """
    ours = vocabulary(20, 1.0, mechanism)

    def guesses(memos):
        right = 0
        for memo in memos:
            sketch = ours.sketch()
            sketch.add(ours.report(["word3"] * 300, per="record" if memo is None else "release", memo=memo))
            right += sketch.estimate().top(1)[0][0] == "word3"
        return right

    assert guesses([None] * 20) >= 19
    memo = Memo()
    first = one_word(ours, memo)
    assert all((one_word(ours, memo) == first).all() for _ in range(50))
    assert guesses([Memo() for _ in range(20)]) <= 14  # each right with at most e / (e + 19) = 0.125: 15 of 20 has 2e-10


def test_averaging_rappor_reaches_the_permanent_bits_and_no_further():
    """20,000 reports of one word by one person: the shares of ones tell every permanent bit, and of the true bits as many are
    flipped as f says.
    """
    filter_, wrong = BloomFilter(64, 2, f=0.5, p=0.25, q=0.75, cohorts=1), []
    for _ in range(12):
        memo = Memo()
        reports = filter_.report(["word"] * 2000, per="release", memo=memo)
        ones = np.unpackbits(reports.bits.view(np.uint8), axis=1, bitorder="little").mean(axis=0)
        assert (np.abs(ones - 0.5) > 0.2).all()
        true = np.zeros(64, bool)
        true[filter_.positions(["word"])[0, 0]] = True
        wrong.append(((ones > 0.5) != true).mean())
    # 768 permanent bits, each flipped with 1/4: within 5 standard errors
    assert abs(np.mean(wrong) - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 768)


def test_memoised_reports_follow_the_law():
    """One memo each for 1,000 people: the reports are those of randomised response, and the permanent answers independent."""
    ours = vocabulary(4, 1.0, "k_rr")
    answers = np.concatenate([one_word(ours, Memo()) for _ in range(1000)])
    truth = ours.oracle.law[0] / 2**64
    assert abs((answers == 3).mean() - truth) < 5 * np.sqrt(truth * (1 - truth) / 1000)


def test_different_words_and_collections_have_reports_of_their_own():
    memo = Memo()
    ours, longer = (vocabulary(k, 1.0, "unary", words_per_person=50) for k in (200, 201))
    rows = ours.report([f"word{i}" for i in range(50)], per="release", memo=memo)
    assert len({row.tobytes() for row in rows}) == 50
    assert (longer.report("word0", per="release", memo=memo)[0] != rows[0]).any()


# ---- the limit ----


def test_words_are_limited_over_all_reports():
    ours, memo = vocabulary(20, 3.0, "k_rr", words_per_person=3), Memo()
    ours.report(["word1", "word2"], per="release", memo=memo)
    with pytest.raises(PrivacyBudgetExhaustedError, match="the memo holds 2 words and may hold 3: 2 new ones do not fit") as caught:
        ours.report(["word1", "word3", "word4"], per="release", memo=memo)
    assert caught.value.max_epsilon == 3.0 and caught.value.consumed_epsilon == 2.0
    assert memo.words_reported(ours.digest) == 2
    ours.report(["word5"], per="release", memo=memo)
    for _ in range(3):
        ours.report(["word1", "word2", "word5", "word5"], per="release", memo=memo)
    with pytest.raises(PrivacyBudgetExhaustedError):
        ours.report("word6", per="release", memo=memo)
    # another collection counts apart
    vocabulary(21, 3.0, "k_rr").report("word6", per="release", memo=memo)


def test_unknown_words_are_one_word():
    ours, memo = vocabulary(5, 1.0, "k_rr", unknown="other"), Memo()
    first = ours.report("strange", per="release", memo=memo)
    assert ours.report("stranger", per="release", memo=memo) == first
    assert memo.words_reported(ours.digest) == 1


def test_only_new_words_are_charged():
    ours, memo = vocabulary(20, 3.0, "k_rr", words_per_person=3), Memo()
    budget = hv.PrivacyBudget(2.0)
    ours.report(["word1", "word1", "word2"], per="release", memo=memo, budget=budget)
    assert budget.consumed() == pytest.approx(2.0)
    ours.report(["word2"] * 5, per="release", memo=memo, budget=budget)
    assert budget.consumed() == pytest.approx(2.0)
    with pytest.raises(PrivacyBudgetExhaustedError):
        ours.report("word3", per="release", memo=memo, budget=budget)
    assert memo.words_reported(ours.digest) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"per": "record"}, ValueError, "per must be 'release' with a memo"),
        ({"memo": "path"}, TypeError, r"memo must be a hushvec.collect.Memo or None, got str"),
        ({"generator": hv.Generator.unsafe_seeded(1)}, ValueError, "generator must not be a seeded one with a memo"),
        ({"words": "nobody"}, ValueError, "words must be among the 20 of the vocabulary, got 'nobody' at position 0"),
    ],
)
def test_refusals_leave_the_memo_alone(arguments, error, message):
    ours, memo = vocabulary(20, 1.0, "k_rr"), Memo()
    call = {"words": "word1", "per": "release", "memo": memo, **arguments}
    with pytest.raises(error, match=message):
        ours.report(call.pop("words"), **call)
    assert memo.words_reported(ours.digest) == 0


# ---- the file ----


def test_a_file_keeps_the_secret_and_the_count(tmp_path):
    ours, path = vocabulary(500, 2.0, "unary", words_per_person=2), tmp_path / "memo"
    first = one_word(ours, Memo.open(path))
    assert (one_word(ours, Memo.open(path)) == first).all()
    assert Memo.open(path).words_reported(ours.digest) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "word3" not in path.read_text()
    again = Memo.open(path)
    ours.report("word4", per="release", memo=Memo.open(path))  # another object on the same file
    with pytest.raises(PrivacyBudgetExhaustedError):
        ours.report("word5", per="release", memo=again)


def test_damaged_files_are_refused_and_kept(tmp_path):
    path = tmp_path / "memo"
    ours = vocabulary(20, 1.0, "k_rr")
    memo = Memo.open(path)
    one_word(ours, memo)
    sound = path.read_bytes()
    fields = json.loads(sound)
    damaged = [
        b"", sound[:-1], sound[: len(sound) // 2], b"{}", b"[]", b"\xff\xfe", b"null",
        sound.replace(fields["secret"].encode(), fields["secret"][:-2].encode() + b"00"),
        json.dumps({**fields, "words": {}}).encode(),
        json.dumps({**fields, "hushvec_memo": 2}).encode(),
    ]  # fmt: skip
    for data in damaged:
        path.write_bytes(data)
        for use in (lambda: Memo.open(path), lambda: one_word(ours, memo)):
            with pytest.raises(MemoError, match="must be a sound memo of version 1"):
                use()
        assert path.read_bytes() == data
    path.write_bytes(sound)
    assert (one_word(ours, memo) == one_word(ours, Memo.open(path))).all()


def test_a_folder_that_cannot_be_written_to_stops_the_report(tmp_path):
    ours, path = vocabulary(20, 1.0, "k_rr"), tmp_path / "gone" / "memo"
    with pytest.raises(OSError, match="gone"):
        Memo.open(path)
    path.parent.mkdir()
    memo = Memo.open(path)
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    with pytest.raises(OSError, match="gone"):
        one_word(ours, memo)
    path.parent.mkdir()
    assert memo.words_reported(ours.digest) == 0


def _report_own_words(path, first):
    ours = vocabulary(100, 4.0, "k_rr", words_per_person=30)
    memo, done = Memo.open(path), 0
    for i in range(10):
        try:
            ours.report(f"word{first + i}", per="release", memo=memo)
            done += 1
        except PrivacyBudgetExhaustedError:
            pass
    os._exit(done)


def test_processes_share_one_limit(tmp_path):
    """Four processes report 10 words each into one file that admits 30: none is lost, none is counted twice."""
    path = tmp_path / "memo"
    Memo.open(path)
    processes = [multiprocessing.get_context("fork").Process(target=_report_own_words, args=(path, 10 * i)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sum(process.exitcode for process in processes) == 30
    assert Memo.open(path).words_reported(vocabulary(100, 4.0, "k_rr", words_per_person=30).digest) == 30


KILLED = """
import sys
sys.path[:0] = {path!r}
from collect.surveys import vocabulary
from hushvec.collect import Memo
ours, memo = vocabulary(2000, 4.0, "k_rr", words_per_person=2000), Memo.open({file!r})
for i in range(2000):
    print(i, int(ours.report(f"word{{i}}", per="release", memo=memo)[0]), flush=True)
"""


def test_a_killed_process_has_noted_what_it_sent(tmp_path):
    """SIGKILL after some reports: every report that left is in the memo, the file is whole, and repeats are the same reports."""
    file = str(tmp_path / "memo")
    code = KILLED.format(path=sys.path, file=file)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        seen = [tuple(map(int, process.stdout.readline().split())) for _ in range(40)]
        process.send_signal(signal.SIGKILL)
        seen += [tuple(map(int, line.split())) for line in process.stdout.read().splitlines() if line.count(" ") == 1]
    ours, memo = vocabulary(2000, 4.0, "k_rr", words_per_person=2000), Memo.open(file)
    assert memo.words_reported(ours.digest) in (len(seen), len(seen) + 1)
    repeated = ours.report([f"word{i}" for i, _ in seen[:40]], per="release", memo=memo)
    assert repeated.tolist() == [code for _, code in seen[:40]]
