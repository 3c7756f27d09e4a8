"""examples/browser_notes in headless Chromium: the server stores and searches what the page releases, and sees no clean vector."""

import json
import runpy
import sqlite3
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from browsers import api, launched, opened
from hushvec.data import private_note_vectors, private_notes, public_sentence_vectors, public_sentences
from hushvec.mechanisms import PublicCodebook
from serve.services import free_port

ROOT = Path(__file__).parents[2]
uvicorn = pytest.importorskip("uvicorn")
if not (ROOT / "js/src/hushvec.wasm").exists():
    pytest.skip("js/src/hushvec.wasm is not built: make web", allow_module_level=True)
TOPICS = np.repeat(np.arange(8), (16, 14, 12, 10, 10, 6, 6, 6))
QUESTIONS = range(3, 147, 16)   # as many as the budget pays for


@pytest.fixture
def address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(ROOT / "examples/browser_notes/server.py"))
    example["POLICY"]["models"]["minilm"] = {"kind": "python", "object": "serve.toy_models:words"}
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(example["app"](tmp_path), host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}/notes/"
    server.should_exit = True
    thread.join()


def test_most_first_answers_are_on_topic():
    """As the page does it: n = 800 questions in 10 rounds, 72 % of them on topic; less than half with chance below 1e-9 even if
    only one in five is independent. Answers at random are on topic for 14 %."""
    notes, texts = private_note_vectors(), public_sentence_vectors()
    questions, book = texts[3::4], PublicCodebook.of(np.delete(texts, np.s_[3::4], axis=0))
    on_topic = []
    for _ in range(10):
        stored, asked = (hv.privatize(rows, mechanism=book.mechanism(8.0)).values for rows in (notes, questions))
        candidates = np.argsort(-asked @ stored.T, axis=1)[:, :20]
        first = candidates[np.arange(80), np.einsum("qd,qkd->qk", questions, notes[candidates]).argmax(axis=1)]
        on_topic.append(TOPICS[first] == TOPICS)
    assert np.mean(on_topic) > 0.5


def test_a_browser_stores_and_searches(address, tmp_path):
    notes, texts = private_notes(), public_sentences()
    with launched() as browser, opened(browser, address) as page:
        sent = []
        page.on("request", lambda request: sent.append(request.post_data) if request.method == "POST" else None)
        page.get_by_role("button", name="Store").click()
        api.expect(page.locator("#stored")).to_contain_text("has 80 noisy rows")
        api.expect(page.locator("#spent")).to_contain_text("epsilon 8; left: 72")
        for asked, number in enumerate(QUESTIONS):
            page.get_by_label("A question").select_option(texts[number])
            page.get_by_role("button", name="Search").click()
            api.expect(page.locator("#spent")).to_contain_text(f"epsilon {8 * (asked + 2)};")
            found = page.locator("#found li").all_inner_texts()
            assert len(found) == 5 and set(found) <= set(notes)
        page.get_by_role("button", name="Search").click()
        api.expect(page.locator("#problem")).to_contain_text("budget")
    clean = private_note_vectors()
    with sqlite3.connect(tmp_path / "browser_notes.sqlite.answers") as store:
        rows = dict(store.execute("select id, row from hushvec_released"))
    stored = np.array([np.frombuffer(rows[str(number)], "<f4") for number in range(80)])
    assert (np.abs(stored - clean).max(axis=1) > 1e-3).all()
    assert not any(text in body for body in sent for text in (*notes, *texts)) and len(sent) == 10
    assert all(json.loads(body)["receipt"]["is_dp_claim"] for body in sent)
