"""What a request lets stay in a text: categories and exact texts, for redaction and for rewriting."""

import pytest

from hushvec.serve.models import Kept
from hushvec.serve.routes import texts as rewriters
from serve.services import client_of, policy_fields

TEXT = "Mrs. Edith Varga, born 3 March 1947, or ines.varga@example.org; Edith Varga again."
CANARY = "canary-7f3a"


@pytest.fixture
def client(tmp_path):
    with client_of(policy_fields(tmp_path / "budget.sqlite")) as made:
        yield made


def redacted(client, **allowed):
    answer = client.post("/v1/redact", json={"text": TEXT, **allowed})
    assert answer.status_code == 200, answer.text
    return answer.json()["text"]


def test_a_text_that_is_allowed_stays_wherever_it_stands(client):
    everything = redacted(client)
    assert "Varga" not in everything and "1947" not in everything
    assert redacted(client, allow_list=["Edith Varga"]).count("Edith Varga") == 2
    assert "1947" in redacted(client, allow_list=["3 March 1947"]) and "Varga" not in redacted(client, allow_list=["3 March 1947"])
    assert redacted(client, allow_list=["Edith", "1947", "edith varga"]) == everything   # exact texts of finds, not parts
    assert redacted(client, allow_list=[]) == everything


def test_texts_and_categories_can_be_allowed_together(client):
    found = redacted(client, allow_categories=["email"], allow_list=["3 March 1947"])
    assert "ines.varga@example.org" in found and "1947" in found and "Edith" not in found


def test_a_request_adds_to_what_the_policy_allows(tmp_path):
    fields = policy_fields(tmp_path / "budget.sqlite", redact={"allow_list": ["Edith Varga"]})
    with client_of(fields) as client:
        assert "Edith Varga" in redacted(client) and "1947" not in redacted(client)
        found = redacted(client, allow_list=["3 March 1947"])
        assert "Edith Varga" in found and "1947" in found


REFUSED = [
    {"allow_categories": [CANARY]},
    {"allow_categories": [""]},
    {"allow_categories": ["email"] * 101},
    {"allow_list": CANARY},
    {"allow_list": [1]},
    {"allow_list": ["a"] * 1001},
]


@pytest.mark.parametrize("path", ["/v1/redact", "/v1/rewrite"])
@pytest.mark.parametrize("allowed", REFUSED)
def test_what_cannot_be_allowed_is_refused(client, path, allowed):
    answer = client.post(path, json={"text": TEXT, **allowed})
    assert answer.status_code == 400 and CANARY not in answer.text
    assert answer.json()["error"]["param"].partition(".")[0] == next(iter(allowed))
    assert client.get("/v1/budgets").json()["charges"] == 0


class Recorded:
    """In the place of a Rewriter: what it was made with."""

    def __init__(self, **settings):
        self.settings = settings


def test_rewriters_with_allowed_texts_are_not_kept(monkeypatch):
    monkeypatch.setattr(rewriters, "Rewriter", Recorded)
    monkeypatch.setattr(rewriters, "kept_rewriter", kept := Kept(rewriters._rewriter, 64))
    made = rewriters.rewriter_for(2.0, ["date"], [CANARY, "Edith Varga"])
    shown = made.settings["redactor"].redact(TEXT).text
    assert "Edith Varga" in shown and "1947" in shown and "example.org" not in shown
    assert ["Edith Varga" in one.settings["redactor"].redact(TEXT).text for one in kept._made.values()] == [False]
    assert rewriters.rewriter_for(2.0, ["date", "email"]) is rewriters.rewriter_for(2.0, ["email", "date", "date"])
    assert len(kept._made) == 2
