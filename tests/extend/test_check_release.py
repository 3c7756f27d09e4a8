"""`hushvec.extend.check_release`: releases of the library and of the guide pass, and mistakes planted in the latter are named."""

from functools import partial

import numpy as np
import pytest

import hushvec as hv
from extend.examples import example, require_named
from hushvec.extend import check_release

ROWS = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


def release_around(*changes):
    return example("release_around", "center = np.full", *changes)


def checked(release):
    around = partial(release, center=np.full(8, 0.5, np.float32), epsilon=4.0, clip_norm=1.0)
    around.__name__ = "around"
    return check_release(around, ROWS)


@pytest.mark.parametrize("options", [{}, {"mechanism": "laplacian"}, {"per": "release"}], ids=str)
def test_the_releases_of_the_library_pass(options):
    assert len(check_release(partial(hv.privatize, epsilon=2.0, **options), ROWS)) == 7


def test_the_release_of_the_guide_passes():
    assert checked(release_around())[0] == "its receipt holds, and comes back from JSON"


def test_releases_of_directions_are_not_measured():
    assert len(check_release(partial(hv.privatize, epsilon=2.0, mechanism="privunit"), ROWS, additive=False)) == 5


DRAW, RETURN = "    release = release_planned(", "    return release._replace(values=release.values + center)"
DRAWS = "every release draws anew, but a seed gives the same bits and no claim; x stays as it was"
PAYS = "a budget is charged once, for what the receipt promises, and the receipt names the charge"
KEPT = "no person moves the values by more than the receipt's sensitivity"
NOISE = "its noise is not smaller than that of its receipt, and of every number its own"
BAD = "NaN, Inf, rows of another form and a seed with a budget are refused before the charge"
ASARRAY = "    x = np.asarray(x, np.float32)\n"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            [(RETURN, "    import dataclasses\n    receipt = dataclasses.replace(release.receipt, epsilon=1.0)\n"
                      "    return release._replace(values=release.values + center, receipt=receipt)")],
            "its receipt holds, and comes back from JSON: a receipt must hold, got 'does not hold'",
        ),
        ([("generator=generator", "generator=None")], f"{DRAWS}: the same seed gave other values"),
        ([("generator=generator", "generator=hv.Generator.unsafe_seeded(1)")], f"{DRAWS}: two releases gave the same values"),
        ([(DRAW, f"    x -= 0 * center + 1\n{DRAW}")], f"{DRAWS}: x was changed"),
        ([("budget=budget", "budget=None")], f"{PAYS}: one charge must be made, got 0"),
        ([(DRAW, f"    budget and budget.consume(0.5)\n{DRAW}")], f"{PAYS}: one charge must be made, got 2"),
        (
            [(DRAW, f"    try:\n        budget and budget.consume(epsilon, 1e-5)\n    except hv.errors.PrivacyBudgetExhaustedError:\n"
                    f"        pass\n{DRAW}"), ("budget=budget", "budget=None")],
            "what a budget refuses is not released: a full budget must be refused by PrivacyBudgetExhaustedError",
        ),
        ([(ASARRAY, f"{ASARRAY}    x = np.nan_to_num(x)\n")], f"{BAD}: nan must be refused by TypeError or ValueError"),
        (
            [(DRAW, f"    bad, x = ~np.isfinite(x).all(), np.nan_to_num(x)\n{DRAW}"),
             (RETURN, f'    if bad:\n        raise ValueError("x must be finite")\n{RETURN}')],
            f"{BAD}: nan was refused after the charge",
        ),
        (
            [(f"{DRAW}x - center", f"{DRAW}(x - center) / 2"), ("release.values + center", "2 * release.values + center")],
            f"{KEPT}: sensitivity must be >=",
        ),
        ([(DRAW, f"    center = x.mean(axis=0)\n{DRAW}")], f"{KEPT}: sensitivity must be >="),
        (
            [(RETURN, "    again = release_planned(x - center, plan, budget=None).values\n"
                      "    return release._replace(values=(release.values + again) / 2 + center)")],
            f"{NOISE}: the noise must have variance",
        ),
        (
            [(RETURN, "    return release._replace(values=x + (release.values - x + center)[:1])")],
            f"{NOISE}: every number must have noise of its own",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_a_release_is_named(changes, words):
    with pytest.raises(AssertionError) as failure:
        checked(release_around(*changes))
    require_named(failure, "around", words)
