"""What is left of retrieval: each post's noisy vector must find its own clean one among 2,000, on real embeddings.

Every fourth post or so of the file, so that all categories take part. Top-1 rates have a standard error of 0.011 at 2,000 posts;
the floors are facts of the mechanism on these posts, and the seeds are fixed.
"""

import json
import lzma
import os
from importlib.util import find_spec

import numpy as np
import pytest

import hushvec as hv
from data_files import data_file
from hushvec.mechanisms import PrivUnit

POSTS, needs_posts = data_file("20newsgroups_8.jsonl.xz")
COUNT = 2000

pytestmark = [
    pytest.mark.ranks,
    pytest.mark.skipif(os.environ.get("HUSHVEC_TEST_SCALE") != "full", reason="minutes: HUSHVEC_TEST_SCALE=full"),
    pytest.mark.skipif(
        find_spec("sentence_transformers") is None, reason="sentence_transformers is not installed: pip install '.[text]'"
    ),
    needs_posts,
]


@pytest.fixture(scope="module")
def clean():
    from hushvec.text import MiniLMEmbedder

    with lzma.open(POSTS, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    chosen = np.linspace(0, len(texts) - 1, COUNT).astype(int)
    return MiniLMEmbedder().embed([texts[i] for i in chosen])


def top_1(clean, **arguments):
    noisy = hv.privatize(clean, generator=hv.Generator.unsafe_seeded(2025), **arguments).values
    return float((np.argmax(noisy @ clean.T, axis=1) == np.arange(len(clean))).mean())


@pytest.mark.parametrize("epsilon, least", [(10.0, 0.33), (16.0, 0.80)])
def test_privunit_keeps_what_gaussian_noise_loses(clean, epsilon, least):
    assert top_1(clean, epsilon=epsilon, mechanism="privunit") >= least
    assert top_1(clean, epsilon=epsilon, delta=1e-5, mechanism="gaussian", normalize=True) < 0.05


def test_the_split_for_retrieval_finds_more(clean):
    for_retrieval = PrivUnit(epsilon=10.0, dimension=clean.shape[1], corpus_size=COUNT)
    assert top_1(clean, mechanism=for_retrieval) > top_1(clean, epsilon=10.0, mechanism="privunit") + 0.05
