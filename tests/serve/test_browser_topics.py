"""The page's topics in a browser: what is sent, what is drawn, what grew, what is refused; by keyboard, and on every screen."""

import json
import re
from pathlib import Path

import httpx
import pytest

from browsers import api, is_wide, launched, opened, violations
from hushvec.aggregates import PrivateTopics
from serve.services import free_port, policy_fields, server, write_policy
from serve.test_browser import cut_by_rings

KINDS = ("a card that is late", "the lost <b>PIN</b>", "fees \u202eabroad")
POOL = "\n".join(KINDS)
WIDE = {"viewport": {"width": 1280, "height": 900}}


@pytest.fixture(scope="module")
def browser():
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("browser"), free_port()
    fields = policy_fields(folder / "budget.sqlite", epsilon=8.0095, limit=400.0, aggregates=True)
    with server(write_policy(folder / "policy.yaml", fields), port, log=folder / "log"):
        yield f"http://127.0.0.1:{port}/"


def notes(first, second, third):
    return [KINDS[0]] * first + [KINDS[1]] * second + [KINDS[2]] * third


def count(page, texts, pool=POOL):
    page.get_by_label("People's notes").fill("\n".join(texts))
    page.get_by_label("Public texts").fill(pool)
    page.get_by_role("button", name="Count topics").click()
    page.locator("#topics-result").wait_for()


def test_what_people_write_about_and_what_grew(browser, address, tmp_path):
    with opened(browser, address, **WIDE) as page:
        before = httpx.get(address + "v1/budgets").json()["consumed"]["epsilon"]
        page.get_by_role("tab", name="Redactor").press("ArrowRight")
        slider = page.locator("#topics-epsilon")
        api.expect(page.locator("#topics-epsilon-value")).to_have_text("1")   # wherever the policy's lies
        api.expect(page.locator("#topics-epsilon-means")).to_contain_text("at most 73.2\u00a0% of the time; without the release,")
        api.expect(page.locator("#topics-cost")).to_contain_text("Counting takes epsilon 1 and delta 0.00001 for each person")
        slider.press("End")
        api.expect(page.locator("#topics-epsilon-value")).to_have_text("8.01")
        with page.expect_request("**/v1/topics") as sent:
            count(page, notes(300, 200, 100))
        assert len(sent.value.headers["idempotency-key"]) == 36
        assert sent.value.post_data_json == {"texts": notes(300, 200, 100), "pool_texts": list(KINDS), "epsilon": 8.0095}
        assert page.evaluate("document.activeElement.id") == "topics-result"
        api.expect(page.locator("#topics-notes-count")).to_have_text("600 texts")
        api.expect(page.locator("#topics-said")).to_contain_text("are about “a card that is late”, the largest of 3 topics.")
        bars = page.locator("#topics-shares li")
        assert bars.locator(".share-name bdi").all_inner_texts()[:2] == list(KINDS[:2])
        part, ends, whole = (bars.first.locator(place).bounding_box() for place in (".part", ".ends", ".share-bar"))
        share, (low, high) = part["width"], (ends["x"] - part["x"], ends["x"] - part["x"] + ends["width"])
        assert whole["x"] == part["x"] and 0 < low < share < high < whole["width"] + 1
        assert page.locator("#topics-result b").count() == 0   # texts stay texts
        api.expect(page.locator("#topics-uncovered")).to_contain_text("Uncovered notes")
        assert page.locator("#topics-growth").is_hidden()
        api.expect(page.locator("#topics-receipt")).to_contain_text("differential privacy with epsilon 8.01, delta 0.00001")
        api.expect(page.locator("#topics-receipt")).to_contain_text("one person with at most 1 row; whoever sent them promised it")
        page.locator("#topics-receipt").get_by_role("button", name="Verify").click()
        api.expect(page.locator("#topics-receipt .verdict")).to_contain_text("The receipt holds.")
        spent = httpx.get(address + "v1/budgets").json()["consumed"]["epsilon"]
        assert spent == pytest.approx(before + 8.0095)
        api.expect(page.locator("#topics-budget [role=meter]")).to_have_attribute("aria-valuenow", str(spent))

        with page.expect_download() as saved:
            page.get_by_role("button", name="Download as .json").click()
        earlier = tmp_path / "monday.json"
        saved.value.save_as(earlier)
        assert saved.value.suggested_filename == "topics.json"
        assert PrivateTopics.from_json(earlier.read_text()).receipt.epsilon == 8.0095
        page.locator("#topics-earlier-file").set_input_files(earlier)
        api.expect(page.locator("#topics-earlier")).to_have_text("Compared with monday.json.")
        count(page, notes(100, 400, 100))
        changes = page.locator("#topics-changes li")
        api.expect(changes.first).to_contain_text(KINDS[1])
        api.expect(changes.first.locator(".share-name > span")).to_have_text(re.compile(r"^\+3\d\.\d\d$"))
        api.expect(changes.last.locator(".share-name > span")).to_have_text(re.compile(r"^−3\d\.\d\d$"))
        page.get_by_role("button", name="Compare with nothing").click()
        api.expect(page.locator("#topics-earlier")).to_be_empty()
        count(page, notes(100, 400, 100))
        assert page.locator("#topics-growth").is_hidden()
        page.get_by_role("tab", name="Ledger").click()
        api.expect(page.locator("#charges tr").first).to_contain_text("topics")
        page.get_by_role("button", name="Show the receipt of row").first.click()
        api.expect(page.locator("#receipts .released").first).to_contain_text("Released: shares of 3 topics")


def test_files_and_people(browser, address, tmp_path):
    with opened(browser, address + "#topics") as page:
        said = page.locator("#topics-notes-count")

        def choose(text, name="notes.jsonl"):
            page.locator("#topics-notes-file").set_input_files({"name": name, "mimeType": "text/plain", "buffer": text})

        lines = [json.dumps({"text": text, "person": place // 4}) for place, text in enumerate(notes(80, 40, 40))]
        choose("\r\n".join(lines).encode())
        api.expect(said).to_have_text("160 texts of 40 people")
        page.get_by_label("Public texts").fill(POOL)
        with page.expect_request("**/v1/topics") as sent:
            page.get_by_role("button", name="Count topics").click()
        assert sent.value.post_data_json["people"] == [str(place // 4) for place in range(160)]
        page.locator("#topics-result").wait_for()
        api.expect(page.locator("#topics-receipt")).to_contain_text("one person with at most 1 row; further ones were dropped")
        for text, sentence in (
            (b'{"text": "a"}\n{"note": "b"}', "Every line of JSON must have its text in the field “text”."),
            (b'{"text": "a"}\n{"text": ', "Every line of JSON must have its text in the field “text”."),
            (b'{"text": "a", "person": 1}\n{"text": "b", "person": null}',
             "The field “person” must be in all lines or in none; 1 have it."),
            (b"%PDF\xff\x00", "The file is not a UTF-8 text: save it as plain text, or paste the text itself."),
            (b"\n\n", ""),
            (b"{braces}\nand none", "2 texts"),
        ):
            choose(text)
            api.expect(said).to_have_text(sentence)
        page.locator("#topics-earlier-file").set_input_files({"name": "list.json", "mimeType": "text/plain", "buffer": b"[1, 2]"})
        api.expect(page.locator("#topics-earlier")).to_have_text("list.json is not the .json of an earlier period.")


def test_what_is_refused_is_said_and_not_charged(browser, address):
    with opened(browser, address + "#topics", is_quiet=False) as page:
        count(page, notes(50, 30, 20))
        with page.expect_download() as saved:
            page.get_by_role("button", name="Download as .json").click()
        charges = httpx.get(address + "v1/budgets").json()["charges"]
        problem, button = page.locator("#topics-problem"), page.get_by_role("button", name="Count topics")
        page.locator("#topics-earlier-file").set_input_files(
            {"name": "monday.json", "mimeType": "application/json", "buffer": Path(saved.value.path()).read_bytes()}
        )
        api.expect(page.locator("#topics-earlier")).to_have_text("Compared with monday.json.")
        page.get_by_label("Public texts").fill(f"{POOL}\nand one more")
        button.click()
        api.expect(problem).to_contain_text("The service refused the request: before must have the topics of this request")
        page.get_by_label("Public texts").fill("one\ntwo")
        button.click()
        api.expect(problem).to_contain_text("pool must have at least 3 different rows, got 2")
        page.get_by_label("People's notes").fill("")
        button.click()
        api.expect(problem).to_contain_text("texts must hold at least 1 text, got 0")
        assert page.locator("#topics-result").is_hidden() and httpx.get(address + "v1/budgets").json()["charges"] == charges


def test_a_request_without_an_answer_is_repeated_under_its_key(browser, address):
    keys = []

    def fail(route):
        keys.append(route.request.headers["idempotency-key"])
        route.abort()

    with opened(browser, address + "#topics", is_quiet=False) as page:
        page.route("**/v1/topics", fail)
        page.get_by_label("People's notes").fill("\n".join(notes(5, 5, 5)))
        page.get_by_label("Public texts").fill(POOL)
        button = page.get_by_role("button", name="Count topics")
        for number in (1, 2):
            button.click()
            api.expect(page.locator("#topics-problem")).to_contain_text("The service does not answer")
            api.expect(button).to_have_attribute("aria-disabled", "false")
            assert len(keys) == number
        page.get_by_label("Public texts").fill(f"{POOL}\nmore")
        button.click()
        api.expect(button).to_have_attribute("aria-disabled", "false")
        assert keys[0] == keys[1] != keys[2] and len(keys) == 3


def test_too_few_notes_are_said_to_be_too_few(browser, address):
    with opened(browser, address + "#topics") as page:
        page.locator("#topics-epsilon").press("Home")
        count(page, notes(3, 2, 1))
        said = "There are too few notes for this noise: take more people, or more epsilon."
        api.expect(page.locator("#topics-said")).to_have_text(said)


def test_a_policy_without_aggregates_has_no_such_tab(browser, tmp_path):
    port = free_port()
    policy = write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "budget.sqlite"))
    with server(policy, port, log=tmp_path / "log"), opened(browser, f"http://127.0.0.1:{port}/#topics") as page:
        api.expect(page.get_by_role("tab", name="Redactor")).to_have_attribute("aria-selected", "true")
        assert page.get_by_role("tab").all_inner_texts() == ["Redactor", "Explorer", "Ledger"] and page.locator("#topics").is_hidden()


@pytest.mark.parametrize("width", [360, 375, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen_and_axe_finds_nothing(browser, address, width, scheme):
    settings = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme, "reduced_motion": "reduce"}
    with opened(browser, address + "#topics", **settings) as page:
        api.expect(page.locator("#topics-epsilon-value")).to_have_text("1")
        assert not is_wide(page) and violations(page) == [] and cut_by_rings(page) == []
        page.locator("#topics-epsilon").press("End")
        count(page, notes(60, 40, 20), "\n".join([*KINDS, "a" * 300, *(f"{one} {7 * one}" for one in range(200))]))
        assert page.locator("#topics-shares > ol > li").count() == 15
        page.locator("#topics-shares summary").press("Enter")
        api.expect(page.locator("#topics-shares details[open] li").last).to_be_visible()
        tabs = [tab.bounding_box() for tab in page.get_by_role("tab").all()]
        assert cut_by_rings(page) == []
        assert len(tabs) == 4 and {tab["y"] for tab in tabs} == {0.0} and all(tab["height"] < 70 for tab in tabs)   # one line
        assert not is_wide(page) and violations(page) == []
