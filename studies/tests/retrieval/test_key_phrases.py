"""RAKE against the worked example of its paper, and what is ours: limits, cuts, stand-ins, ties."""

import pytest

from hushvec_studies.retrieval.key_phrases import candidates, key_phrases, stop_words, word_count, word_scores

# Rose et al. (2010), figure 1.1: the abstract.
ABSTRACT = (
    "Compatibility of systems of linear constraints over the set of natural numbers. Criteria of compatibility of a system of "
    "linear Diophantine equations, strict inequations, and nonstrict inequations are considered. Upper bounds for components of a "
    "minimal set of solutions and algorithms of construction of minimal generating sets of solutions for all types of systems are "
    "given. These criteria and the corresponding algorithms for constructing a minimal supporting set of solutions can be used in "
    "solving all the considered types of systems and systems of mixed types."
)
# The figures of the paper and of an independent program (github.com/L-ear/RAKE, in Java, its README): two decimals.
SCORES = {
    "minimal generating sets": 8.67,
    "linear diophantine equations": 8.50,
    "minimal supporting set": 7.67,
    "minimal set": 4.67,
    "linear constraints": 4.50,
    "natural numbers": 4.00,
    "strict inequations": 4.00,
    "nonstrict inequations": 4.00,
    "upper bounds": 4.00,
    "corresponding algorithms": 3.50,
    "set": 2.00,
    "algorithms": 1.50,
    "compatibility": 1.00,
    "systems": 1.00,
    "criteria": 1.00,
    "system": 1.00,
    "components": 1.00,
    "solutions": 1.00,
    "constructing": 1.00,
    "solving": 1.00,
}
# Stop words there which are content words in our list.
THEIRS = frozenset({"construction", "mixed"})


def scored(stop):
    """Every candidate with the sum of its words' scores."""
    found = candidates(ABSTRACT, stop)
    scores = word_scores(found)
    return {" ".join(one.words): round(sum(scores[word] for word in one.words), 2) for one in found}


def test_the_worked_example_of_the_paper():
    assert scored(stop_words() | THEIRS) == SCORES


def test_our_stop_words_only_add_to_the_example():
    assert scored(stop_words()) == {**SCORES, "construction": 1.00, "mixed": 1.00}
    assert key_phrases(ABSTRACT) == ["minimal generating sets", "linear diophantine equations", "minimal supporting set"]


def test_word_scores_are_degree_over_frequency():
    """Each with the counts of the paper's figures 1.3 and 1.4; frequency or degree alone would give others."""
    scores = word_scores(candidates(ABSTRACT, stop_words() | THEIRS))
    for word, degree, frequency in [("linear", 5, 2), ("minimal", 8, 3), ("set", 6, 3), ("algorithms", 3, 2), ("systems", 4, 4)]:
        assert scores[word] == degree / frequency


def test_the_stop_words_are_a_list():
    words = stop_words()
    assert len(words) > 500
    assert {"the", "of", "don't", "dont", "types"} <= words
    assert not words & {"numbers", "systems", "space", "#"}
    assert all(word == word.lower() and word.replace("'", "").isalpha() for word in words)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Black powder motors", ["black powder motors"]),
        ("black powder; motors", ["black powder", "motors"]),
        ("black powder\nmotors", ["black powder", "motors"]),
        ("black powder\tmotors", ["black powder", "motors"]),
        ("black   powder motors", ["black powder motors"]),
        ("black 12 powder x motors", ["black", "powder", "motors"]),
        ("mp3 player's self-test", ["mp3 player's self-test"]),
        ("Don’t send spam", ["send spam"]),
        ("don't send spam", ["send spam"]),
        ("ann@mail.org wrote", ["ann", "mail", "org wrote"]),
        ("snake_scores end words", ["snake", "scores end words"]),
        ("Größe ÜBER alles", ["größe über alles"]),
        ("", []),
        ("of the", []),
    ],
)
def test_what_a_candidate_is(text, found):
    assert [" ".join(candidate.words) for candidate in candidates(text, stop_words())] == found


def test_a_long_candidate_is_cut_before_scoring():
    """Without the cut the first word would have the score 12, and this one the phrase."""
    table = " ".join(f"cell{letter}" for letter in "abcdefghijkl")
    found = candidates(table, stop_words(), 5)
    assert [len(candidate.words) for candidate in found] == [5, 5, 2]
    assert word_scores(found)["cella"] == 5
    assert key_phrases(table, count=9) == ["cella cellb cellc celld celle", "cellf cellg cellh celli cellj", "cellk celll"]


def test_a_stop_word_after_exactly_the_limit():
    assert key_phrases("one red blue green yellow black of white", tokens=(3, 5)) == ["red blue green yellow black", "white"]


def test_runs_over_stop_words_stand_in():
    """No candidate has three words: the best run within the limits, then what is short and lies elsewhere."""
    text = "systems of linear constraints. natural numbers"
    assert key_phrases(text) == ["systems of linear constraints", "natural numbers"]
    assert key_phrases(text, count=1) == ["systems of linear constraints"]
    # five words are the limit: the run of six does not stand in, and no run reaches over a full stop
    assert key_phrases("upper bounds of the minimal set. solutions") == ["upper bounds", "minimal set", "solutions"]


def test_stand_ins_do_not_repeat_what_is_taken():
    assert key_phrases("a system of linear diophantine equations is solved") == [
        "linear diophantine equations",
        "system",
        "solved",
    ]


def test_equal_scores_keep_the_order_of_the_text():
    text = "zinc iron lead. alpha beta gamma. zinc iron lead"
    assert key_phrases(text, count=2) == ["zinc iron lead", "alpha beta gamma"]
    assert key_phrases("alpha beta gamma. zinc iron lead", count=2) == ["alpha beta gamma", "zinc iron lead"]


def test_a_phrase_comes_once():
    assert key_phrases("Zinc iron lead. ZINC IRON LEAD. zinc Iron lead") == ["zinc iron lead"]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_first_phrases_do_not_depend_on_the_count(count):
    assert key_phrases(ABSTRACT, count=count) == key_phrases(ABSTRACT, count=9)[:count]


def test_words_are_counted_with_stop_words():
    assert word_count("The well-known set of 12, and don't.") == 7
