"""The page in a browser: what people do on it, what it asks for, and whether it can be used by keyboard and screen reader."""

import json
from datetime import datetime, timezone
from pathlib import Path

import httpx
import pytest

from browsers import AXE, api, is_wide, launched, opened, violations
from hushvec.serve.keys import hash_of, new_key
from serve.services import free_port, policy_fields, server, write_policy

NOTE = "Mrs. Edith Varga (born 3 March 1947) checks her blood sugar; write to ines.varga@example.org about Edith Varga."
FIRST_REWRITING = 0   # loads a model, for as long as a busy machine takes: the limit is that of the test


@pytest.fixture(scope="module")
def browser():
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("browser"), free_port()
    policy = write_policy(folder / "policy.yaml", policy_fields(folder / "budget.sqlite", epsilon=4.0, limit=20.0))
    with server(policy, port, log=folder / "log"):
        yield f"http://127.0.0.1:{port}/"


def paste(page, text=NOTE):
    page.get_by_label("Your text").fill(text)
    page.locator("#found").wait_for()


def test_the_story_of_a_document(browser, address):
    with opened(browser, address) as page:
        before = httpx.get(address + "v1/budgets").json()["consumed"]["epsilon"]
        paste(page)
        after = page.locator("#after")
        api.expect(after).to_contain_text("[TITLE] [PERSON] (born [DATE]) checks her blood sugar; write to [EMAIL] about [PERSON].")
        assert page.locator("#before").inner_text() == NOTE

        chip = page.get_by_role("button", name="Edith Varga")
        assert chip.get_attribute("aria-pressed") == "true" and "×2" in chip.inner_text()
        chip.click()
        api.expect(after).to_contain_text("[TITLE] Edith Varga (born [DATE])")
        api.expect(page.locator("#after mark.kept")).to_have_count(2)
        api.expect(page.get_by_role("button", name="Edith Varga")).to_have_attribute("aria-pressed", "false")
        page.get_by_role("switch", name="Replace every date").click()
        api.expect(after).to_contain_text("(born 3 March 1947)")
        page.get_by_role("button", name="Edith Varga").click()
        api.expect(after).to_contain_text("[TITLE] [PERSON] (born 3 March 1947)")

        slider = page.get_by_label("Epsilon").first
        slider.press("End")
        api.expect(page.locator("#epsilon-means")).to_contain_text("at most 98.3\u00a0%")
        for _ in range(20):
            page.keyboard.press("ArrowLeft")
        api.expect(page.locator("#epsilon-means")).to_contain_text("at most 88.1\u00a0% of the time; without the release, 50\u00a0%")
        assert "2: an attacker" in slider.get_attribute("aria-valuetext")

        meter = page.locator("#redactor-budget [role=meter]")
        assert float(meter.get_attribute("aria-valuenow")) == before
        with page.expect_request("**/v1/rewrite") as sent:
            page.get_by_role("button", name="Rewrite", exact=True).click()
        page.locator("#result").wait_for(timeout=FIRST_REWRITING)
        request = sent.value
        assert len(request.headers["idempotency-key"]) == 36
        assert request.post_data_json == {
            "text": NOTE, "epsilon": 2.0, "mechanism": "randomized_response", "allow_categories": ["date"], "allow_list": [],
        }
        api.expect(meter).to_have_attribute("aria-valuenow", f"{before + 2:g}")
        assert page.evaluate("document.querySelector('#redactor-budget .bar-fresh').getBoundingClientRect().width") > 5
        api.expect(page.locator("#spent")).to_contain_text(f"epsilon {before:g} → {before + 2:g}")

        released = page.locator("#rewritten").inner_text()
        page.get_by_role("button", name="Verify").first.click()
        api.expect(page.locator("#receipt .verdict")).to_contain_text("The receipt holds.")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Download it").last.click()
        receipt = json.loads(Path(saved.value.path()).read_text())
        assert saved.value.suggested_filename == "receipt.json" and receipt["epsilon"] == 2.0 and receipt["delta"] == 0.0
        with page.expect_download() as saved:
            page.locator("#download-rewritten").click()
        assert Path(saved.value.path()).read_text().strip() == released

        page.get_by_role("tab", name="Ledger").click()
        row = page.locator("#charges tr").first
        api.expect(row).to_contain_text("randomized_response")
        assert row.locator("td").nth(3).inner_text() == "2"
        api.expect(page.locator("#chain-verdict")).to_contain_text("The chain holds.")
        page.get_by_role("button", name="Show the receipt of row").click()   # of the charge that paid for it
        kept = page.locator("#receipts details[open]")
        api.expect(kept.locator("summary").first).to_contain_text("epsilon 2, randomized response")
        kept.get_by_role("button", name="Verify").click()
        api.expect(kept.locator(".verdict")).to_contain_text("The receipt holds.")
        kept.get_by_role("button", name="Show its charge, row").click()
        assert row.evaluate("row => row === document.activeElement")
        for changed, verdict in ((receipt, "The receipt holds."), ({**receipt, "epsilon": 1.0}, "does not hold")):
            page.get_by_label("Verify a receipt").fill(json.dumps(changed))
            page.locator("#pasted-receipt-form button").click()
            api.expect(page.locator("#pasted-verdict")).to_contain_text(verdict)
        page.get_by_label("Verify a receipt").fill("no receipt")
        page.locator("#pasted-receipt-form button").click()
        api.expect(page.locator("#pasted-verdict")).to_contain_text("not a receipt")


def test_the_mechanism_says_what_it_costs_and_guarantees(browser, address):
    with opened(browser, address) as page:
        paste(page)
        select, means, cost = page.get_by_label("Mechanism"), page.locator("#epsilon-means"), page.locator("#cost")
        names = ["Randomized response", "PrivUnit: a noisy direction", "Gaussian noise"]
        assert select.locator("option").all_inner_texts() == names
        assert select.input_value() == "randomized_response"
        page.get_by_label("Epsilon").first.press("Home")   # epsilon 0.1: 52.4979 %, and 0.0005 % more with delta
        api.expect(means).to_contain_text("at most 52.5\u00a0%")
        api.expect(cost).not_to_contain_text("delta")
        select.select_option("gaussian")
        api.expect(page.locator("#mechanism-means")).to_contain_text("Expect texts about something else")
        api.expect(cost).to_contain_text("epsilon 0.1 and delta 0.00001")
        before = httpx.get(address + "v1/budgets").json()["consumed"]
        page.get_by_role("button", name="Rewrite", exact=True).click()
        page.locator("#result").wait_for(timeout=FIRST_REWRITING)
        api.expect(page.locator("#receipt")).to_contain_text("differential privacy with epsilon 0.1, delta 0.00001")
        after = httpx.get(address + "v1/budgets").json()["consumed"]
        assert after["delta"] - before["delta"] == pytest.approx(1e-5) and after["epsilon"] - before["epsilon"] == pytest.approx(0.1)


def test_a_budget_without_delta_offers_no_gaussian(browser, tmp_path):
    port, fields = free_port(), policy_fields(tmp_path / "budget.sqlite", epsilon=4.0)
    fields["tenants"]["alpha"]["budget"] = {"epsilon": 20.0, "delta": 0.0}
    policy = write_policy(tmp_path / "policy.yaml", fields)
    with server(policy, port, log=tmp_path / "log"), opened(browser, f"http://127.0.0.1:{port}/") as page:
        paste(page)
        values = page.locator("#mechanism option").evaluate_all("options => options.map(({ value }) => value)")
        assert values == ["randomized_response", "privunit"]


def test_an_operator_reads_the_ledgers_of_all(browser, tmp_path):
    keys, port = {name: new_key() for name in ("alpha", "beta", "operator")}, free_port()
    fields = policy_fields(tmp_path / "budget.sqlite", key=keys["alpha"], limit=20.0)
    fields["tenants"]["beta"] = {**fields["tenants"]["alpha"], "keys": [hash_of(keys["beta"])]}
    fields["operators"] = {"keys": [hash_of(keys["operator"])]}
    address = f"http://127.0.0.1:{port}/"
    with server(write_policy(tmp_path / "policy.yaml", fields), port, log=tmp_path / "log"):
        sent = {"Authorization": f"Bearer {keys['beta']}"}
        assert httpx.post(address + "v1/embeddings", json={"input": "a"}, headers=sent).status_code == 200
        for who, width in (("operator", 1200), ("operator", 360), ("alpha", 1200)):
            settings = {"viewport": {"width": width, "height": 800}, "reduced_motion": "reduce"}
            with opened(browser, address + "#ledger", is_quiet=False, **settings) as page:   # 401 before the key is known
                page.get_by_label("Your key").fill(keys[who])
                page.get_by_role("button", name="Use this key").click()
                page.locator("#access").wait_for(state="hidden")
                if who == "alpha":
                    api.expect(page.locator("#ledger-title")).to_have_text("Your budget")
                    assert page.locator("#tenants-card").is_hidden() and "beta" not in page.locator("#ledger").inner_text()
                    continue
                assert page.get_by_role("tab").all_inner_texts() == ["Explorer", "Ledger"]
                api.expect(page.locator("#ledger-title")).to_have_text("Budget of alpha")
                api.expect(page.locator("#no-charges")).to_be_visible()
                page.get_by_role("button", name="beta").click()
                api.expect(page.locator("#ledger-title")).to_have_text("Budget of beta")
                api.expect(page.get_by_role("button", name="beta")).to_have_attribute("aria-pressed", "true")
                api.expect(page.locator("#charges tr")).to_have_count(1)
                api.expect(page.locator("#chain-verdict")).to_contain_text("The chain holds. All 2 rows")
                assert page.locator("#ledger-problem").is_hidden() and not is_wide(page) and violations(page) == []
                page.get_by_role("tab", name="Ledger").press("ArrowRight")   # past the hidden tab
                assert page.get_by_role("tab", name="Explorer").get_attribute("aria-selected") == "true"


def test_a_release_beyond_the_budget_says_what_to_do(browser, address, tmp_path):
    port = free_port()
    policy = write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "budget.sqlite", epsilon=4.0, limit=1.0))
    with server(policy, port, log=tmp_path / "log"), opened(browser, f"http://127.0.0.1:{port}/", is_quiet=False) as page:
        paste(page)
        page.get_by_role("button", name="Rewrite", exact=True).click()
        problem = page.locator("#rewrite-problem")
        problem.wait_for(timeout=FIRST_REWRITING)
        said = problem.inner_text()
        assert "epsilon 1 is left" in said and "choose a smaller epsilon, or wait until it renews" in said
        assert page.locator("#result").is_hidden()


def test_a_request_without_an_answer_is_repeated_under_its_key(browser, address):
    keys = []

    def fail(route):
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            route.abort()
        else:
            error = {"error": {"message": "the ledger cannot be used", "code": "ledger_unavailable"}}
            route.fulfill(status=503, json=error, headers={"Retry-After": "1"})

    with opened(browser, address, is_quiet=False) as page:
        page.route("**/v1/rewrite", fail)
        paste(page)
        for said in ("The service does not answer", "cannot be used right now: try again in 1 second"):
            page.get_by_role("button", name="Rewrite", exact=True).click()
            api.expect(page.locator("#rewrite-problem")).to_contain_text(said)
        page.get_by_label("Epsilon").first.press("ArrowLeft")
        page.get_by_role("button", name="Rewrite", exact=True).click()
        page.wait_for_function("count => document.querySelector('#rewrite').getAttribute('aria-disabled') === 'false'", arg=3)
        assert keys[0] == keys[1] != keys[2] and len(keys) == 3


def test_files_are_read_and_others_refused(browser, address, tmp_path):
    with opened(browser, address) as page:
        chosen = page.locator("#file")
        chosen.set_input_files({"name": "note.txt", "mimeType": "text/plain", "buffer": "Ärztin 🩺 Mrs. Edith Varga".encode()})
        api.expect(page.locator("#after")).to_have_text("Ärztin 🩺 [TITLE] [PERSON]")   # offsets count characters
        chosen.set_input_files({"name": "scan.pdf", "mimeType": "application/pdf", "buffer": b"%PDF\xff\x00"})
        api.expect(page.locator("#source-problem")).to_contain_text("not a UTF-8 text")
        chosen.set_input_files({"name": "big.txt", "mimeType": "text/plain", "buffer": b"a" * 1_000_001})
        api.expect(page.locator("#source-problem")).to_contain_text("larger than 1 MB")


def test_what_is_typed_stays_text(browser, address):
    with opened(browser, address) as page:
        paste(page, "<img src=x onerror=alert(1)> Mrs. <b>Edith Varga</b>")
        assert page.locator("#before img, #before b, #after img, #after b").count() == 0
        assert "<img src=x onerror=alert(1)>" in page.locator("#after").inner_text()


OVERRIDE = "Mrs. Edith \u202eVarga\u202c wrote; \u2067Mr. James Wood\u2069 \u200bcalls 415-555-0188.\x07"


def in_order(page, place):
    """Whether the letters of the first line of an element stand from left to right."""
    return page.locator(place).evaluate("""place => {
        const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT), range = document.createRange(), found = [];
        while (walker.nextNode())
            for (let at = 0; at < walker.currentNode.length; at++) {
                range.setStart(walker.currentNode, at);
                range.setEnd(walker.currentNode, at + 1);
                const { left, width, top } = range.getBoundingClientRect();
                if (width) found.push([Math.round(top / 12), left]);
            }
        return found.every(([row, left], at) => !at || row > found[at - 1][0] || left > found[at - 1][1]);
    }""")


def test_what_nobody_sees_is_shown_and_reverses_nothing(browser, address):
    with opened(browser, address) as page:
        paste(page, OVERRIDE)
        for place in ("#before", "#after"):
            assert in_order(page, place), place
            codes = page.locator(f"{place} .unseen").evaluate_all("all => all.map((one) => one.dataset.code)")
            assert {"U+202E", "U+202C", "U+2067", "U+2069", "U+200B", "U+0007"} >= set(codes) >= {"U+0007"}
        assert page.locator("#before").evaluate("place => place.textContent") == OVERRIDE   # as it is, to be copied
        api.expect(page.locator("#unseen")).to_contain_text("The text has 6 characters that are not visible.")
        page.get_by_label("Your text").fill("\U0001f469\u200d\U0001f467 می\u200cخواهم Mrs. Edith Varga")   # joiners that belong there
        api.expect(page.locator("#unseen")).to_be_empty()
        forged = {"receipt_kind": "labels", "mechanism": "\u202egaussian", "epsilon\u202e": 1.0}
        answer = {"status": "does not hold", "reasons": ["\u202eno field"]}
        page.route("**/v1/receipts/verify", lambda route: route.fulfill(json=answer))
        page.get_by_role("tab", name="Ledger").click()
        page.get_by_label("Verify a receipt").fill(json.dumps(forged))
        page.locator("#pasted-receipt-form button").click()
        api.expect(page.locator("#pasted-verdict .unseen")).to_have_attribute("data-code", "U+202E")


def test_an_old_release_does_not_stay_beside_a_failed_one(browser, address):
    with opened(browser, address, is_quiet=False) as page:
        paste(page)
        page.get_by_label("Epsilon").first.press("Home")
        button = page.get_by_role("button", name="Rewrite", exact=True)
        button.click()
        page.locator("#result").wait_for(timeout=FIRST_REWRITING)
        released = page.locator("#rewritten").inner_text()
        page.route("**/v1/rewrite", lambda route: route.abort())
        button.click()
        page.locator("#rewrite-problem").wait_for()
        assert page.locator("#result").is_hidden()
        page.get_by_role("tab", name="Ledger").click()
        page.locator("#receipts summary").first.click()
        api.expect(page.locator("#receipts .released").first).to_contain_text(released)   # paid for, so not lost
        page.route("**/v1/redact", lambda route: route.abort())
        page.get_by_role("tab", name="Redactor").click()
        chip = page.get_by_role("button", name="Edith Varga")
        chip.click()
        api.expect(page.locator("#source-problem")).to_contain_text("does not answer")
        assert chip.get_attribute("aria-pressed") == "true" and page.locator("#found").is_visible()
        page.get_by_label("Your text").fill("Somebody else's text")
        page.locator("#found").wait_for(state="hidden")
        for name, pattern, shown in (("Ledger", "**/ledger", "#account"), ("Explorer", "**/v1/explore*", "#scene")):
            page.route(pattern, lambda route: route.abort())
            page.get_by_role("tab", name=name).click()
            page.locator(shown).wait_for(state="hidden")
            page.unroute(pattern)
        page.locator("#explorer-epsilon").press("Home")
        page.locator("#scene").wait_for()
        page.get_by_role("tab", name="Ledger").click()
        page.locator("#account").wait_for()


@pytest.mark.parametrize("width", [360, 1200])
def test_a_charge_with_its_receipt_fits_and_no_ring_cuts_a_text(browser, address, width):
    at_ten = f"Etc/GMT-{(22 - datetime.now(timezone.utc).hour) % 12}"   # the widest time: an hour of two digits
    with opened(browser, address, viewport={"width": width, "height": 800}, timezone_id=at_ten) as page:
        paste(page)
        page.get_by_label("Epsilon").first.press("Home")
        page.get_by_role("button", name="Rewrite", exact=True).click()
        page.locator("#result").wait_for(timeout=FIRST_REWRITING)
        assert cut_by_rings(page) == []
        page.get_by_role("tab", name="Ledger").click()
        row = page.locator("#charges tr").first
        row.get_by_role("button", name="Show the receipt of row").wait_for()
        api.expect(row).to_contain_text("randomized_response, 1 answer of ")
        assert row.evaluate("row => row.scrollWidth <= row.clientWidth")
        if width < 400:
            assert row.locator("td").nth(3).bounding_box()["height"] < 25   # epsilon, on one line
            left = [cell["x"] for place in (0, 2, 5) if (cell := row.locator("td").nth(place).bounding_box())]
            assert max(left) - min(left) < 1   # number, purpose and receipt begin at the same edge
        assert cut_by_rings(page) == []
        page.get_by_role("button", name="Show the receipt of row").first.click()
        page.get_by_role("button", name="Show its charge, row").first.click()
        assert texts_under_the_ring(page) == []   # of the row that has the focus now
        page.get_by_role("tab", name="Explorer").click()
        page.locator("#plot .note").wait_for()
        assert cut_by_rings(page) == []


def cut_by_rings(page):
    """At every stop of the TAB key: texts that the ring of the focus runs through."""
    page.locator(".skip").focus()
    found = []
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            return found
        found += texts_under_the_ring(page)
    raise AssertionError("the TAB key never came to an end")


def texts_under_the_ring(page):
    """Texts that the ring around the focused element crosses, or the element's name where something cuts off the ring."""
    return page.evaluate("""() => {
        let focused = document.activeElement;
        focused.scrollIntoView({ block: "center" });
        if (focused.type === "file") focused = focused.parentElement;
        const style = getComputedStyle(focused), cut = [];
        if (style.outlineStyle === "none") return cut;
        const grown = (box, by) => ({ left: box.left - by, top: box.top - by, right: box.right + by, bottom: box.bottom + by });
        const meets = (one, other) =>
            one.left < other.right && one.right > other.left && one.top < other.bottom && one.bottom > other.top;
        const isIn = (one, other) =>
            one.left >= other.left && one.right <= other.right && one.top >= other.top && one.bottom <= other.bottom;
        const inner = grown(focused.getBoundingClientRect(), parseFloat(style.outlineOffset));
        const outer = grown(inner, parseFloat(style.outlineWidth));
        for (let above = focused.parentElement; above !== document.body; above = above.parentElement)
            if (getComputedStyle(above).overflow !== "visible" && !isIn(outer, above.getBoundingClientRect()))
                cut.push(`the ring of ${focused.textContent.trim() || focused.id}`);
        const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), range = document.createRange();
        while (walker.nextNode()) {
            const { data, parentElement } = walker.currentNode;
            if (!data.trim() || !parentElement.checkVisibility() || parentElement.closest(".hidden-words, .tip")) continue;
            range.selectNodeContents(walker.currentNode);
            for (const box of range.getClientRects()) {
                const letters = grown(box, -1);
                if (meets(letters, outer) && !isIn(letters, inner)) cut.push(data);
            }
        }
        return cut;
    }""")


def test_an_empty_page_says_why(browser, address):
    with opened(browser, address) as page:
        api.expect(page.locator("#why")).to_contain_text("Why redact a text?")
        assert page.evaluate("scrollY") == 0
        paste(page)
        assert page.locator("#why").is_hidden()


def test_the_slider_starts_at_the_smallest_epsilon_that_is_worth_it(browser, address, tmp_path):
    port = free_port()
    policy = write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "budget.sqlite", epsilon=8.0, limit=1_000_000.0))
    with opened(browser, address) as page:   # at most 4: nothing is, so the middle
        paste(page)
        assert page.locator("#epsilon-value").inner_text() == "2"
        api.expect(page.locator("#expectation")).to_contain_text("the released text says nearly nothing about yours")
    with server(policy, port, log=tmp_path / "log"), opened(browser, f"http://127.0.0.1:{port}/") as page:
        paste(page)
        assert 4 < float(page.locator("#epsilon-value").inner_text()) < 8
        page.get_by_label("Epsilon").first.press("End")
        api.expect(page.locator("#expectation")).to_have_text("About 86\u00a0% of 80 test notes kept their subject at this epsilon.")
        httpx.post(f"http://127.0.0.1:{port}/v1/embeddings", json={"input": "a"}).raise_for_status()
        page.get_by_role("tab", name="Ledger").click()
        api.expect(page.locator("#ledger-budget")).to_contain_text("epsilon 999,992 left of 1,000,000")


def test_the_explorer_draws_and_is_read_by_keyboard(browser, address):
    with opened(browser, address) as page:
        page.get_by_role("tab", name="Redactor").focus()
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("tab", name="Explorer").get_attribute("aria-selected") == "true"
        api.expect(page.locator("#plot .sentence")).to_have_count(320)
        assert page.locator("#plot .right, #plot .wrong").count() == 60 and page.locator("#plot .note").count() == 1
        api.expect(page.locator("#attack")).to_contain_text("97.5\u00a0%")
        assert page.locator("#plot [tabindex='0']").count() == 1
        page.wait_for_load_state("networkidle")  # before that the picture may be drawn once more
        page.locator("#plot [tabindex='0']").focus()
        api.expect(page.locator("#plot .tip")).to_contain_text("The note: Mr. Oduya")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        api.expect(page.locator("#plot .tip")).to_contain_text("Release 2: the attacker names")
        page.keyboard.press("ArrowDown")
        api.expect(page.locator("#plot .tip")).to_contain_text("Public sentence:")
        page.locator("#explorer-epsilon").press("Home")
        api.expect(page.locator("#explorer-status")).to_contain_text("At epsilon 0.5")
        page.locator("#as-table summary").click()
        api.expect(page.locator("#tables tbody tr")).to_have_count(380)
        page.locator("#note").select_option("0")
        api.expect(page.locator("#tables")).to_contain_text("The note “Marisa Quell")


def test_the_curves_follow_the_slider_and_are_read_by_keyboard(browser, address):
    with opened(browser, address + "#explorer") as page:
        now = page.locator("#curves-now")
        api.expect(now).to_contain_text("At epsilon 8. Public codebook: 79\u00a0% on topic, 5.6\u00a0% recognized.")
        assert page.locator(".chart .line").count() == 6 and page.locator(".chart [role='img']").count() == 54
        api.expect(page.locator("#curves-source")).to_contain_text("3,047 posts of 20 Newsgroups as MiniLM vectors")
        chart, tip = page.locator("#recognized-curves"), page.locator("#recognized-curves .tip")
        assert chart.locator("[tabindex='0']").count() == 1
        chart.locator("[tabindex='0']").focus()
        api.expect(tip).to_have_text("Public codebook, epsilon 1: 0.1\u00a0% of the posts are recognized")
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):   # to epsilon 4, then to the next mechanism
            page.keyboard.press(key)
        api.expect(tip).to_have_text("PrivUnit, epsilon 4: 0.5\u00a0% of the posts are recognized")
        where = chart.locator(".marker").get_attribute("x1")
        slider = page.locator("#explorer-epsilon")
        slider.press("ArrowLeft")
        api.expect(now).to_contain_text("At epsilon 6, the measured one nearest to 6.73.")
        assert float(chart.locator(".marker").get_attribute("x1")) < float(where)
        slider.press("End")
        api.expect(now).to_contain_text("epsilon, 64, is outside what was measured: 1 to 24")
        assert page.locator(".chart .marker").count() == 0
        page.locator("#explorer details summary").last.click()
        api.expect(page.locator("#curves-tables tbody tr")).to_have_count(18)
        api.expect(page.locator("#curves-tables")).to_contain_text("What search finds: share on topic among the 10 best answers")


def test_a_key_is_asked_for_and_not_kept(browser, tmp_path):
    key, port = new_key(), free_port()
    policy = write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "budget.sqlite", key=key))
    address = f"http://127.0.0.1:{port}/"
    with server(policy, port, log=tmp_path / "log"), opened(browser, address, is_quiet=False) as page:
        field = page.get_by_label("Your key")
        field.focus()
        assert texts_under_the_ring(page) == []
        field.fill("\u043a\u043b\u044e\u0447")  # no header holds it
        page.get_by_role("button", name="Use this key").click()
        api.expect(page.locator("#access-problem")).to_contain_text("does not know this key")
        for given, said in (("hv_wrong", "does not know this key"), (key, "")):
            field.fill(given)
            page.get_by_role("button", name="Use this key").click()
            api.expect(page.locator("#access-problem")).to_contain_text(said)
        api.expect(page.locator("#access")).to_be_hidden()
        paste(page)
        api.expect(page.locator("#after")).to_contain_text("[PERSON]")
        assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
        page.reload()
        field.wait_for()


@pytest.mark.parametrize("width", [360, 768, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen_and_axe_finds_nothing(browser, address, width, scheme):
    settings = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme, "reduced_motion": "reduce"}
    with opened(browser, address, **settings) as page:
        paste(page, "Mrs. Edith Varga, ines.varga@example.org, " + "a" * 300)
        page.get_by_role("switch").first.click()
        page.locator("#after mark.kept").first.wait_for()
        for name in ("Redactor", "Explorer", "Ledger"):
            page.get_by_role("tab", name=name).click()
            page.wait_for_load_state("networkidle")
            assert not is_wide(page), name
            assert violations(page) == [], name


@pytest.mark.skipif(AXE is None, reason="AXE does not name axe.min.js: npm install axe-core")
def test_axe_sees_what_is_wrong(browser, address):
    with opened(browser, address) as page:
        page.evaluate("document.querySelector('main').append(document.createElement('img'))")
        assert [name for name, _ in violations(page)] == ["image-alt"]
