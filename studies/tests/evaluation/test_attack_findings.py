"""Sentences about the other attacks say what intervals carry, and no more."""

from hushvec_studies.evaluation.findings import attack_choice, attack_results, main_figures, task_results, title

TASK = "notes, private documents"


def use(mechanism, epsilon, value):
    return {
        "task": TASK,
        "mechanism": mechanism,
        "epsilon": epsilon,
        "delta": 0.0,
        "candidates": 1000,
        "released": 3000,
        "ndcg_at_10": [value, value - 0.02, value + 0.02],
        "attack": [0.5, 0.4, 0.6],
        "bound": 1.0,
    }


def attacked(mechanism, epsilon, value, bound=0.9, name="pair"):
    figure = {"value": [value, value - 0.004, value + 0.004], "chance": 0.5, "bound": bound}
    return {"task": TASK, "mechanism": mechanism, "epsilon": epsilon, "delta": 0.0, "figures": {name: figure}}


USE = task_results(
    [use("none", None, 0.8), use("good", 2.0, 0.5), use("good", 4.0, 0.6), use("bad", 4.0, 0.3), use("bad", 8.0, 0.3)]
)[0]
ROWS = [
    attacked("none", None, 0.996, None),
    attacked("good", 2.0, 0.503),
    attacked("good", 4.0, 0.7),
    attacked("bad", 4.0, 0.507),
    attacked("bad", 8.0, 0.8),
]


def test_figures_of_one_setting_are_put_together():
    """A search for texts is measured apart from the other attacks, and not everywhere."""
    searched = [attacked("none", None, 0.9, None, "inversion_f1"), attacked("good", 4.0, 0.6, 0.9, "inversion_f1")]
    (result,) = attack_results([*ROWS, *searched])
    assert set(result.clean) == {"pair", "inversion_f1"}
    assert [row["epsilon"] for row in result.having("inversion_f1")] == [4.0]
    assert len(result.rows) == 4


def test_a_bound_that_is_exceeded_is_an_error():
    (result,) = attack_results([*ROWS[:2], attacked("good", 4.0, 0.95)])
    assert attack_choice(result, USE, 0.01).endswith(
        "one of two rows told apart exceeds the bound of the claim at good at epsilon 4: the claim is refuted."
    )


def test_what_it_means_for_a_choice():
    (result,) = attack_results(ROWS)
    assert attack_choice(result, USE, 0.01) == (
        "At good at epsilon 2, the smallest epsilon that keeps at least half of the use without noise: one of two rows told apart "
        "0.503 [0.499, 0.507], where the claim allows 0.9 (fails)."
    )
    useless = task_results([use("none", None, 0.8), use("good", 2.0, 0.1), use("good", 4.0, 0.2)])[0]
    said = attack_choice(result, useless, 0.01)
    assert said.startswith(
        "At good at epsilon 4, the most useful setting, which keeps less than half of the use: one of two rows"
    )


def test_names_of_strangers():
    names = ["pair", "alignment wordllama 10", "alignment wordllama 1000"]
    assert title(names[2]) == "named through wordllama from 1,000 pairs"
    assert main_figures(names) == ["pair", "alignment wordllama 1000"]

