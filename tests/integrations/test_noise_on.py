"""Which side gets noise: the other comes out clean, free and without a receipt, but through all else that the middleware does."""

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import Gaussian, PrivUnit, PublicCodebook, PublicProjection
from hushvec.middleware import EmbeddingMiddleware, EmpiricalSensitivity
from integrations.adapter_cases import ASYNC, DIMENSION, EPSILON, HOSTS, LIMIT, ToyModel, private, run, unit_row

ADAPTERS = [name for name in HOSTS if name != "openai"]  # a service's client embeds, but hands nothing on
SIDES = {"documents": (True, False), "queries": (False, True), "both": (True, True)}


@pytest.mark.parametrize("noise_on", SIDES)
@pytest.mark.parametrize("name, way", [(name, "sync") for name in ADAPTERS] + [(name, "async") for name in ASYNC if name in ADAPTERS])
def test_only_the_sides_named_are_noised_charged_and_have_receipts(name, way, noise_on):
    """Noise at epsilon = 2 turns a row by more than 0.01, but for a chance of 1e-30: a clean row and a noised one are not mistaken."""
    budget, receipts, model = hv.PrivacyBudget(LIMIT), [], ToyModel()
    host = HOSTS[name](model, private(budget), receipts.append, noise_on)
    if way == "sync":
        (document,), query = host.documents(["a"]), host.query("a")
    else:
        (document,), query = run(host.adocuments(["a"])), run(host.aquery("a"))
    noised = SIDES[noise_on]
    moved = [np.linalg.norm(np.asarray(row) - unit_row("a", kind)) for row, kind in ((document, "document"), (query, "query"))]
    assert [bool(distance > 0.01) for distance in moved] == list(noised)
    assert all(distance < 1e-6 for distance, is_noised in zip(moved, noised) if not is_noised)
    assert [row.receipt is not None for row in (document, query)] == list(noised)
    assert len(receipts) == sum(noised) and budget.consumed() == EPSILON * sum(noised)
    assert [kind for _, kind in model.calls] == ["document", "query"]


def clean_query(middleware, text="a"):
    from hushvec.integrations._source import PrivateSource

    (row,) = PrivateSource(ToyModel(), middleware).embed([text], "query")
    return row


def public_rows(count=64):
    return np.stack([unit_row(f"public {number}") for number in range(count)])


MAP = PublicProjection.fit(public_rows(), components=8, whiten=True)
OF_MECHANISMS = {
    "clipped": (dict(epsilon=EPSILON, clip_norm=0.5), lambda row: 0.5 * row),
    "half of the sensitivity": (dict(epsilon=EPSILON, sensitivity=0.5), lambda row: 0.25 * row),
    "an object that clips": (dict(mechanism=Gaussian(epsilon=2.0, delta=1e-5, dimension=16, clip_norm=0.5)), lambda row: 0.5 * row),
    "rows of one person": (dict(mechanism=PrivUnit(epsilon=EPSILON, dimension=16, rows_per_person=5), per="release"), lambda row: row),
    "directions": (dict(epsilon=EPSILON, mechanism="privunit", projection=MAP), lambda row: unit(MAP.transform(row[None])[0])),
    "normalized": (dict(epsilon=EPSILON, projection=MAP, normalize=True), lambda row: unit(MAP.transform(row[None])[0])),
    "an estimate": (dict(epsilon=EPSILON, sensitivity=EmpiricalSensitivity(0.9, 0.5, 10)), lambda row: 0.5 * row),
    "codes": (dict(mechanism=PublicCodebook.of(public_rows()).mechanism(EPSILON * 4)), lambda row: row),
    "unit rows after the noise": (dict(epsilon=EPSILON, clip_norm=0.5, renormalize=True), lambda row: row),
}


def unit(row):
    return row / np.linalg.norm(row)


@pytest.mark.parametrize("name", OF_MECHANISMS)
def test_a_clean_row_is_what_the_noise_would_have_been_added_to(name):
    settings, expected = OF_MECHANISMS[name]
    np.testing.assert_allclose(clean_query(hv.dp_embedding_middleware(**settings)), expected(unit_row("a", "query")), atol=2e-6)


def test_clean_rows_of_a_torch_model_stay_tensors_of_their_dtype():
    torch = pytest.importorskip("torch")
    rows = torch.from_numpy(public_rows(3)).to(torch.float16)
    wrapped = hv.wrap_embedding_model(lambda texts: rows[: len(texts)], hv.dp_embedding_middleware(epsilon=EPSILON, clip_norm=0.5))
    clean = wrapped.without_noise().run(["a", "b"]).values
    assert clean.dtype == torch.float16 and torch.allclose(clean, 0.5 * rows[:2], atol=1e-3) and rows[0].norm() > 0.99


def test_a_clean_row_is_the_mean_of_noised_ones():
    """n = 20,000 releases of one row, 8 elements: the largest error of their mean is below 5 standard errors (alpha = 5e-6,
    a fixed seed). The row without its clip is more than 20 away."""
    seeded = hv.Generator.unsafe_seeded(1)
    noise = hv.dp_embedding_middleware(epsilon=EPSILON * 4, clip_norm=0.2, projection=MAP, generator=seeded)
    wrapped = hv.wrap_embedding_model(lambda texts: np.tile(unit_row("a"), (len(texts), 1)), noise)
    noised = wrapped.embed(["a"] * 20_000).values.astype(np.float64)
    clean = wrapped.without_noise().embed(["a"]).values[0]
    error = noised.std(axis=0).max() / np.sqrt(len(noised))
    assert np.abs(noised.mean(axis=0) - clean).max() < 5 * error
    assert np.abs(noised.mean(axis=0) - MAP.transform(unit_row("a")[None])[0]).max() > 20 * error


def test_clean_queries_are_redacted_like_documents():
    model = ToyModel()
    host = HOSTS["sklearn"](model, [hv.pii_redaction_middleware(patterns=["email"]), private()], None, "documents")
    host.query("Write to jane@example.com")
    assert model.calls == [(["Write to [EMAIL]"], "query")]


def test_noise_of_a_model_that_is_wrapped_again_is_left_out_too():
    budget = hv.PrivacyBudget(LIMIT)
    inner = hv.wrap_embedding_model(ToyModel(), private(budget))
    outer = hv.wrap_embedding_model(inner, hv.pii_redaction_middleware(patterns=["email"]))
    host = HOSTS["sklearn"](outer, None, None, "documents")
    assert host.query("a").receipt is None and budget.consumed() == 0
    assert host.documents(["a"])[0].receipt is not None and budget.consumed() == EPSILON
    assert outer.without_noise().model_id == outer.model_id == "toy" and not outer.without_noise().adds_noise


def test_clean_rows_of_several_noisy_steps_have_no_noise():
    budget = hv.PrivacyBudget(LIMIT)
    row = clean_query([private(budget), private(budget, clip_norm=0.5)])
    np.testing.assert_allclose(row, 0.5 * unit_row("a", "query"), atol=1e-6)
    assert budget.consumed() == 0


class OwnNoise(EmbeddingMiddleware):
    """A step that says nothing about its noise."""

    def wrap(self, result, model):
        return type(result)(result.values + 7.0)


def test_an_own_step_that_says_nothing_of_its_noise_is_never_left_out():
    np.testing.assert_allclose(clean_query([private(), OwnNoise()]), unit_row("a", "query") + 7.0, atol=1e-5)


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize(
    "middleware, noise_on, error, words",
    [
        (private(), "everything", ValueError, "noise_on must be one of 'documents', 'queries', 'both', got 'everything'"),
        (private(), None, TypeError, "noise_on must be a str"),
        (private(), ["documents"], TypeError, "noise_on must be a str"),
        (hv.pii_redaction_middleware(patterns=["email"]), "documents", ValueError, "must have a step that adds noise"),
        (OwnNoise(), "both", ValueError, "must have a step that adds noise"),
        (private().without_noise(), "documents", ValueError, "must have a step that adds noise"),
    ],
    ids=["unknown", "None", "list", "redaction alone", "own step that says nothing", "noise left out"],
)
def test_wrong_values_and_missing_noise_are_refused_at_once(name, middleware, noise_on, error, words):
    with pytest.raises(error, match=words):
        HOSTS[name](ToyModel(), middleware, None, noise_on)


def test_an_unknown_kind_is_refused_and_never_clean():
    from hushvec.integrations._source import PrivateSource

    for kind in ("passage", None, ["query"]):
        with pytest.raises((TypeError, ValueError), match="kind must be"):
            PrivateSource(ToyModel(), private()).embed(["a"], kind)


@pytest.mark.parametrize("fault", [lambda rows: 3 * rows, lambda rows: rows[:, :-1]], ids=["not unit norm", "another dimension"])
def test_clean_rows_are_checked_like_noised_ones(fault):
    from hushvec.integrations._source import PrivateSource

    model = ToyModel()
    source = PrivateSource(model, private())
    assert source.embed(["a"], "query").shape == (1, DIMENSION)
    model.fault = fault
    with pytest.raises(ValueError, match=r"unit norm|must have 16 columns"):
        source.embed(["a"], "query")


def test_texts_without_a_kind_are_documents():
    """`encode` of sentence-transformers, a Chroma function that is called, a service's answer."""
    pytest.importorskip("sentence_transformers")
    from hushvec.integrations.sentence_transformers import PrivateSentenceTransformer

    assert PrivateSentenceTransformer(ToyModel(), private()).encode("a").receipt.epsilon == EPSILON
    assert hv.wrap_embedding_model(ToyModel(), private()).embed(["a"]).receipt.epsilon == EPSILON
    chroma = pytest.importorskip("hushvec.integrations.chroma", exc_type=hv.MissingExtraError)
    assert chroma.PrivateEmbeddingFunction(ToyModel(), private())(["a"]).receipt.epsilon == EPSILON
