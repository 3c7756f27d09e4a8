"""Rewriting beside word-level metric privacy: outputs with little noise and with much, and what is measured of them."""

import json
import math

import numpy as np
import pytest

from hushvec_studies.evaluation.texts import (
    AS_IT_IS,
    LEAK,
    LENGTH,
    MEANING,
    UNRELATED,
    WHOLE,
    WORDS,
    RewritingCell,
    Sentences,
    by_words,
    measure_rewriting,
    ratio,
    sentences,
)

NAMES = ["Miranda", "Gustavo", "Ottilie", "Bernard", "Yolanda", "Quentin"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sentences of two templates; the odd ones are private."""
    folder = tmp_path_factory.mktemp("sentences")
    records = []
    for number in range(60):
        name = NAMES[number // 2 % len(NAMES)]
        text = f"{name} paid bill {number}." if number % 2 else f"Please write to {name} about bill {number}."
        start = text.index(name)
        span = {"entity_type": "PERSON", "entity_value": name, "start_position": start, "end_position": start + len(name)}
        records.append({"full_text": text, "spans": [span], "template_id": number})
    (folder / "pii_synth.json").write_text(json.dumps(records))
    return sentences(folder, apart, "hashed-words", 1)


def apart(words):
    """A random direction for each word."""
    seeds = [int.from_bytes(word.encode()[:8], "big") for word in words]
    return np.array([np.random.default_rng(seed).standard_normal(64) for seed in seeds], np.float32)


def row(data, method, epsilon=None):
    return measure_rewriting(RewritingCell(data=data, method=method, epsilon=epsilon, confidence=0.95, resamples=50, seed=1))


def test_public_and_private_sentences(data):
    assert len(data.public) == len(data.private) == 30
    assert all(" paid bill " in text for text in data.private)
    assert "paid" in data.private_words and "paid" not in data.words
    assert all(own[0] in text for own, text in zip(data.identifying, data.private))


def test_words_stay_without_noise_and_go_with_it(data):
    """With an epsilon of 10^6 a public word stays, and "paid", which is none, becomes one. Marks stay."""
    outputs = by_words(data, 1e6, np.random.default_rng(0))
    for text, output in zip(data.private, outputs):
        name, _, bill, number = text.removesuffix(".").lower().split()
        made = output.removesuffix(".").split()
        assert output.endswith(".") and made[0] == name and made[2] == bill
        assert made[1] in data.words
        if number in data.words:
            assert made[3] == number
    noisy = by_words(data, 0.1, np.random.default_rng(0))
    kept = np.mean([output.split()[0] == text.split()[0].lower() for text, output in zip(data.private, noisy)])
    # one of 40 words by chance
    assert kept < 0.3


def test_the_noise_has_the_density_of_metric_privacy():
    """Its length has the gamma law of shape d and scale 1 / epsilon: 4,000 draws of d = 8 and epsilon 2 have the mean 4. The statistic
    is z of their mean, alpha 6e-5 (4 deviations); half of the lengths are refused."""

    class Recorder:
        def __init__(self):
            self.lengths, self.random = [], np.random.default_rng(3)

        def standard_normal(self, count):
            return self.random.standard_normal(count)

        def gamma(self, shape, scale):
            self.lengths.append(self.random.gamma(shape, scale))
            return self.lengths[-1]

    random = Recorder()
    one = Sentences("hashed-words", ["a"], [], np.eye(1, 8, dtype=np.float32), [], ["a a a a"] * 1000, [])
    by_words(one, 2.0, random)
    z = abs(np.mean(random.lengths) - 4.0) / math.sqrt(8 / 4 / 4000)
    assert len(random.lengths) == 4000 and z < 4
    assert abs(np.mean(random.lengths) / 2 - 4.0) / math.sqrt(8 / 4 / 4000) > 4


def test_what_is_measured(data):
    whole = row(data, AS_IT_IS)
    assert whole["figures"][MEANING][0] == pytest.approx(1.0)
    assert whole["figures"][LEAK][0] == 1.0 and whole["figures"][LENGTH][0] == 1.0
    assert whole["figures"][MEANING][0] > whole["figures"][UNRELATED][0] + 0.1
    assert whole["epsilon_of_text"] is None
    little, much = row(data, WORDS, 1000.0), row(data, WORDS, 1.0)
    assert little["figures"][MEANING][0] > much["figures"][MEANING][0] + 0.2
    assert little["figures"][LEAK][0] > much["figures"][LEAK][0] + 0.3
    gains = [one["figures"][MEANING][0] - one["figures"][UNRELATED][0] for one in (little, much)]
    assert gains[0] > gains[1] + 0.1
    # four words, at most 2 apart each
    assert little["epsilon_of_text"] == 8000.0
    text = row(data, WHOLE, 8.0)
    assert text["epsilon_of_text"] == 8.0


def test_an_interval_is_over_documents():
    """Half of 200 documents lose all of their ten words: the share has the spread of 200 draws, 0.035, not of 2,000."""
    value, low, high = ratio([(10.0 * (number % 2), 10.0) for number in range(200)], 0.95, 2000, 1)
    assert value == 0.5
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(200), rel=0.15)
