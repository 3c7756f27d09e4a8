"""Measurements on disk: each is made once, and only what was made for its key counts."""

import json
from dataclasses import dataclass

import pytest

from hushvec_studies.harness.measurements import Measurement, Measurements, digest_of, measured


@dataclass(frozen=True)
class Square(Measurement):
    number: int
    version: int = 1

    @property
    def key(self):
        return {"number": self.number, "version": self.version}

    @property
    def label(self):
        return f"square of {self.number}"


def square(one):
    return {"square": one.number**2}


def failing(one):
    raise ValueError(f"no {one.label}")


@pytest.mark.parametrize("workers", [0, 2])
def test_each_is_made_once_whoever_makes_it(tmp_path, workers):
    wanted = [(Square(number), square) for number in (3, 1, 3, 2)]
    made = measured(wanted, tmp_path, "squares", workers=workers, progress=False)
    assert (list(made.rows.values()), made.before) == ([{"square": 9}, {"square": 1}, {"square": 4}], 0)
    assert list(made.rows) == [Square(number).digest for number in (3, 1, 2)]
    again = measured([(Square(number), failing) for number in (1, 2)], tmp_path, "squares", workers=workers, progress=False)
    assert (list(again.rows.values()), again.before) == ([{"square": 1}, {"square": 4}], 2)


def test_what_was_made_before_an_error_is_kept(tmp_path):
    with pytest.raises(ValueError, match="no square of 2"):
        measured([(Square(1), square), (Square(2), failing)], tmp_path, "squares", progress=False)
    kept = Measurements(tmp_path)
    assert (kept.row_of(Square(1)), kept.row_of(Square(2)), len(kept)) == ({"square": 1}, None, 1)


def test_another_key_under_the_name_does_not_count(tmp_path):
    measured([(Square(1), square)], tmp_path, "squares", progress=False)
    (path,) = (tmp_path / "measured").iterdir()
    path.write_text(json.dumps({"key": Square(1, version=2).key, "row": {"square": 0}}))
    assert measured([(Square(1), square)], tmp_path, "squares", progress=False).before == 0
    assert Measurements(tmp_path).all(dict) == [{"square": 1}]


def test_a_name_is_the_digest_of_the_key():
    """Files of folders that were begun before are found by it."""
    digest = "772daf6c"
    assert digest_of({"b": [1, 2.5, None], "a": "ε"}).startswith(digest)
    assert Square(1).digest == digest_of({"version": 1, "number": 1})
