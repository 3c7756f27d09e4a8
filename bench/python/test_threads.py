"""The model of threads and memory, and the copy that it rests on."""

import numpy as np
import pytest

import threads
from workloads import Workload


def test_model_is_compute_over_threads_until_the_copy_takes_longer():
    copies = {1: 0.30, 2: 0.20, 4: 0.15}
    found = threads.model(0.80, copies, 1.0)
    assert found["ns"] == {1: 0.80, 2: 0.40, 4: 0.20}
    assert found["without_overlap_ns"] == pytest.approx({1: 1.10, 2: 0.60, 4: 0.35})
    assert found["memory_takes_over_at"] == pytest.approx(0.80 / 0.15)
    assert threads.model(0.40, copies, 1.0)["ns"] == {1: 0.40, 2: 0.20, 4: 0.15}


def test_fill_has_half_the_bytes_of_a_copy():
    assert threads.model(0.1, {1: 0.30}, threads.SHARE_OF_COPY["gaussian_fill"])["ns"] == {1: 0.15}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_copy_every_row(count):
    copy = threads.ThreadedCopy(count)
    copy.open()
    assert copy.complaint(Workload("rows", "rows", "clip_and_noise", (7, 5))) == ""
    assert copy.complaint(Workload("samples", "samples", "gaussian", (7,))) == ""
    copy.close()


def test_copy_that_misses_a_row_is_refused():
    class Short(threads.ThreadedCopy):
        def clip_and_noise(self, x, clip_norm, sigma, out):
            np.copyto(out[1:], x[1:])
            return out

    assert Short(1).complaint(Workload("rows", "rows", "clip_and_noise", (7, 5))) == "the copy differs from its source"


def test_threads_beyond_the_cores_are_refused(capsys, monkeypatch):
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 2)
    with pytest.raises(SystemExit):
        threads.parse(["--threads", "1,4"])
    assert "threads must be at most 2, the cores of this machine, got 4" in capsys.readouterr().err
    assert threads.parse([]).threads == (1, 2)
