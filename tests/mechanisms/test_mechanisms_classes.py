"""The dataclasses of hushvec.mechanisms: which can be changed, which take arguments by place, and which are equal by value."""

import numpy as np

from hushvec import mechanisms
from hushvec.mechanisms import FrequencyEstimate
from hushvec.mechanisms.base import Mechanism
from room_classes import by_place, by_value, classes_of, numbers_left_out, that_change, with_arrays


def test_nothing_can_be_changed_after_it_is_made():
    assert that_change("mechanisms") == set()


def test_arguments_are_named_but_for_those_of_few():
    found = {"FrequencyEstimate", "MetricEpsilon", "Option", "Recommendation"}
    assert by_place("mechanisms") == found | {"FittedRows", "PublicCodebook", "PublicProjection"}


def test_those_without_arrays_are_equal_by_value_and_the_others_by_identity():
    others = with_arrays("mechanisms") | {"MetricEpsilon", "PublicData"}   # one has its own rule, one takes any array
    assert by_value("mechanisms") == classes_of("mechanisms").keys() - others


def test_two_estimates_can_be_compared_and_kept_in_a_set():
    one, other = (FrequencyEstimate(np.ones(2), np.ones(2), 2) for _ in range(2))
    assert one != other and len({one, other, one}) == 2


LEFT_OUT = """
additive.AdditiveNoise(clip_norm=1.0, rows_per_person=1)
additive.EmpiricalGaussian(clip_norm=1.0, rows_per_person=1, delta=1e-05)
additive.Gaussian(clip_norm=1.0, rows_per_person=1, delta=1e-05)
additive.L2Laplace(clip_norm=1.0, rows_per_person=1)
additive.Laplacian(clip_norm=1.0, rows_per_person=1)
base.Mechanism(clip_norm=1.0, rows_per_person=1)
base.Mechanism.apply(out_is_fresh=False)
base.Mechanism.require_other_rows(first_row=0)
base.VectorMechanism(clip_norm=1.0, rows_per_person=1)
base.VectorMechanism.log_densities(unit_length=False)
codebook.CodebookResponse(clip_norm=1.0, rows_per_person=1)
codebook.CodebookResponse.require_other_rows(first_row=0)
codebook.PublicCodebook.fit(seed=0)
codebook.PublicCodebook.mechanism(rows_per_person=1)
codebook.PublicCodebook.require_other_rows(first_row=0)
codebook.found_share(most=1024)
discrete.DiscreteGaussian(clip_norm=1.0, rows_per_person=1, delta=1e-05)
discrete.DiscreteLaplacian(clip_norm=1.0, rows_per_person=1)
metric.MetricLaplace.expected_cosine(norm=1.0)
privunit.PrivUnit(clip_norm=1.0, rows_per_person=1)
privunit.PrivUnit.log_densities(unit_length=False)
projection.PublicProjection.fit(components=40, remove_mean=True, whiten=False)
public_arrays.checked_public_rows(at_least=2)
public_arrays.require_other_rows(first_row=0)
public_arrays.unit_public_rows(at_least=2)
randomized_response.RandomizedResponse(k=0)
recommend.Task(larger_is_better=False)
recommend.recommend(delta=1e-05, clip_norm=1.0, unit_rows=True, rows_per_person=1)
"""


def test_what_a_caller_leaves_out_means_what_it_did():
    """A default is a part of every call that does not name it: another one changes those calls without a word."""
    assert numbers_left_out("mechanisms") == LEFT_OUT.split("\n")[1:-1]


FLAGS = ("directions_only", "integers", "takes_delta", "takes_sigma", "in_jobs", "half_words")


def test_a_mechanism_of_ones_own_has_no_flag_unless_it_says_so():
    assert [getattr(Mechanism, flag) for flag in FLAGS] == [False] * len(FLAGS)


def test_which_mechanisms_have_which_flags():
    kinds = [getattr(mechanisms, name) for name in ("Gaussian", "EmpiricalGaussian", "Laplacian", "L2Laplace", "PrivUnit")]
    kinds += [mechanisms.CodebookResponse, mechanisms.DiscreteGaussian, mechanisms.DiscreteLaplacian]
    having = {flag: {kind.name for kind in kinds if getattr(kind, flag)} for flag in FLAGS}
    having["half_words"] -= {kind.name for kind in kinds if kind.grade == "float"}   # docs/format.md section 16
    assert having == {
        "directions_only": {"privunit", "codebook"},
        "integers": {"discrete_gaussian", "discrete_laplacian"},
        "takes_delta": {"gaussian", "empirical", "discrete_gaussian"},
        "takes_sigma": {"empirical"},
        "in_jobs": {"gaussian", "empirical", "laplacian", "l2_laplace", "privunit", "codebook"},
        "half_words": {"gaussian", "empirical", "laplacian"},
    }
