"""Sentences about the other attacks say what intervals carry, and no more."""

from hushvec_studies.evaluation.findings import (
    attack_choice,
    attack_results,
    attack_sentences,
    main_figures,
    settings_text,
    task_results,
    title,
)

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


def told(rows):
    (result,) = attack_results(rows)
    return result, attack_sentences(result, USE, 0.01)


def test_outcomes_and_what_is_dominated():
    """ "bad" is less useful than "good" at epsilon 2, which tells no more apart."""
    _, (rule, said) = told(ROWS)
    assert rule.startswith("An attack succeeds if it is at least 0.01 better than chance")
    assert said == (
        "One of two rows told apart: 0.996 [0.992, 1.000] without noise, 0.5 by chance. It fails: good at epsilon 2. It is not shown "
        "to succeed: bad at epsilon 4. It succeeds: good at epsilon 4; bad at epsilon 8. In use against this attack, dominated: bad "
        "at every epsilon."
    )


def test_figures_of_one_setting_are_put_together():
    """A search for texts is measured apart from the other attacks, and not everywhere."""
    searched = [attacked("none", None, 0.9, None, "inversion_f1"), attacked("good", 4.0, 0.6, 0.9, "inversion_f1")]
    result, sentences = told([*ROWS, *searched])
    assert set(result.clean) == {"pair", "inversion_f1"}
    assert [row["epsilon"] for row in result.having("inversion_f1")] == [4.0]
    assert len(result.rows) == 4
    assert "It succeeds: good at epsilon 4." in sentences[2]


def test_a_bound_that_is_exceeded_is_an_error():
    _, sentences = told([*ROWS[:2], attacked("good", 4.0, 0.95)])
    assert (
        sentences[-1] == "One of two rows told apart exceeds the bound of the claim at good at epsilon 4. The claim is refuted."
    )


def test_what_it_means_for_a_choice():
    result, _ = told(ROWS)
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


def test_every_epsilon_is_said_of_several():
    rows = [{"mechanism": name, "epsilon": epsilon} for name, epsilon in (("a", 1.0), ("a", 2.0), ("b", 1.0))]
    assert settings_text(rows, rows) == "a at every epsilon; b at epsilon 1"
    assert settings_text(rows[:1], rows) == "a at epsilon 1"
