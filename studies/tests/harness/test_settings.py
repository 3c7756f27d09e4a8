"""Settings: what is refused, in which words, and the options of a command."""

import argparse
import math
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from hushvec_studies.harness.settings import Distinct, Epsilon, Listed, Settings, Share, Text, add_options, checked, given, one_of


class Weights(Settings):
    kinds: Distinct[Annotated[str, one_of(("heavy", "light"))]] = Field(default=("heavy",), description="of weights")
    epsilons: Distinct[Epsilon] = Field(default=(math.inf, 2.0), description="of each; 100 % of them")
    share: Share = Field(default=0.5, description="that is weighed")
    sizes: Listed[Annotated[int, Field(ge=1)]] = Field(default=(), description="in grams")
    place: Path | None = Field(default=None, description="where")
    quick: bool = Field(default=False, description="a smoke test")
    label: Text = "inner"


def options(*words):
    parser = argparse.ArgumentParser()
    add_options(parser, Weights)
    return checked(Weights, given(parser.parse_args(words), Weights))


def test_options_are_the_fields_that_have_a_meaning():
    assert options() == Weights()
    found = options("--kinds", "light", "heavy", "--epsilons", "inf", "3", "--sizes", "--place", "x", "--quick", "--share", "0.25")
    assert found == Weights(kinds=("light", "heavy"), epsilons=(math.inf, 3.0), place=Path("x"), quick=True, share=0.25)
    with pytest.raises(SystemExit):
        options("--label", "outer")


def test_help_names_defaults(capsys):
    with pytest.raises(SystemExit):
        options("--help")
    said = " ".join(capsys.readouterr().out.split())
    assert "of each; 100 % of them (default: inf 2)" in said and "where" in said


@pytest.mark.parametrize(
    "values, error, said",
    [
        ({"kinds": ["hevy"]}, ValueError, "kinds[0] must be one of heavy, light, got 'hevy', did you mean 'heavy'?"),
        ({"kinds": []}, ValueError, "kinds must not be empty"),
        ({"kinds": ["light", "light"]}, ValueError, "kinds must not name anything twice, got 'light' again"),
        ({"kinds": "light"}, TypeError, "kinds must be a list, got a text"),
        ({"epsilons": [0.0]}, ValueError, "epsilons[0] must be > 0, got 0.0"),
        ({"epsilons": [math.nan]}, ValueError, "epsilons[0] must be finite or inf, got nan"),
        ({"share": 1.0}, ValueError, "share must be < 1, got 1.0"),
        ({"share": math.inf}, ValueError, "share must be finite, got inf"),
        ({"share": True}, TypeError, "share must be a number, got true or false"),
        ({"sizes": [1.5]}, TypeError, "sizes[0] must be a whole number, got the number 1.5"),
        ({"sizes": (0,)}, ValueError, "sizes[0] must be >= 1, got 0"),
        ({"quick": 1}, TypeError, "quick must be true or false, got the number 1"),
        ({"label": " "}, ValueError, "label must not be empty"),
        ({"weight": 1}, ValueError, "weight is not a setting"),
    ],
)
def test_what_is_wrong_is_named(values, error, said):
    with pytest.raises(error) as caught:
        checked(Weights, values)
    assert str(caught.value) == said


def test_infinity_is_a_word_in_json():
    assert Weights().model_dump(mode="json")["epsilons"] == ["inf", 2.0]
    assert checked(Weights, {"epsilons": ["inf", 2]}) == Weights()
