"""hushvec redact: texts, files, standard input, lines and JSON lines; the list of rules; one clear line for what cannot be done."""

import json
from pathlib import Path

import pytest

from cli.command import assert_one_line, hushvec, hushvec_here
from hushvec.text import rules

TEXT = "Contact Jane Doe at jane@example.com."
SHOWN = "Contact [PERSON] at [EMAIL]."


def redacted(*arguments, **settings):
    finished = hushvec_here("redact", *arguments, **settings)
    assert finished.code == 0, finished.err
    assert finished.err == ""
    return finished.out


@pytest.mark.parametrize(
    ("arguments", "output", "other"),
    [
        (["redact", "in.txt"], "in.txt", "in.txt"),
        (["redact", "link.txt"], "../a/in.txt", "link.txt"),
        (["redact", "in.txt"], "hard.txt", "in.txt"),
        (["redact", "in.txt", "--gazetteer", "names.txt"], "names.txt", "names.txt"),
        (["redact", "in.txt", "--pseudonyms", "new.vault", "--key-file", "new.key"], "./new.vault", "new.vault"),
        (["redact", "in.txt", "--pseudonyms", "new.vault", "--key-file", "new.key"], "new.key", "new.key"),
        (["rewrite", "in.txt", "--budget", "k", "--budget-store", "b.sqlite", "--force"], "b.sqlite", "b.sqlite"),
        (["privatize", "v.npy", "--epsilon", "1", "--codebook", "c.npy", "--force"], "c.npy", "c.npy"),
        (["codebook", "v.npy", "--epsilon", "8"], "v.npy", "v.npy"),
        (["budget", "export", "--key", "k", "--store", "sqlite:///b.sqlite"], "b.sqlite", "sqlite:///b.sqlite"),
    ],
)
def test_a_command_does_not_replace_what_it_reads(tmp_path, arguments, output, other):
    folder = tmp_path / "a"
    folder.mkdir()
    for name in ("in.txt", "names.txt", "v.npy", "c.npy", "b.sqlite"):
        (folder / name).write_text("full person name: Jane Doe\n")
    (folder / "link.txt").symlink_to("in.txt")
    (folder / "hard.txt").hardlink_to(folder / "in.txt")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    finished = hushvec_here(*arguments, "-o", output, cwd=folder)
    assert_one_line(finished, f"{Path(output)}: must be another file than {other}, which it would replace")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_text_file_and_standard_input(tmp_path):
    (tmp_path / "letter.txt").write_bytes(TEXT.encode() + b"\r\n\r\nend")
    assert redacted("--text", TEXT) == SHOWN + "\n"
    assert redacted(tmp_path / "letter.txt") == SHOWN + "\r\n\r\nend"
    assert redacted(stdin=TEXT.encode()) == redacted("-", stdin=TEXT.encode()) == hushvec("redact", stdin=TEXT.encode()).out == SHOWN


def test_json():
    found = json.loads(redacted("--text", TEXT, "--json"))
    assert found["text"] == SHOWN
    assert [(span["start"], span["end"], span["category"]) for span in found["spans"]] == [
        (8, 16, "full person name"),
        (20, 36, "email address"),
    ]


def test_what_was_redacted_is_not_printed_unasked():
    for options in (("--text", TEXT), ("--text", TEXT, "--lines")):
        hidden, shown = redacted(*options, "--json"), redacted(*options, "--json", "--show-original")
        assert not any(word in hidden for word in ("Jane", "jane"))
        assert [span["text"] for span in json.loads(shown)["spans"]] == ["Jane Doe", "jane@example.com"]


def test_an_output_file(tmp_path):
    out = tmp_path / "out.txt"
    out.write_text("old")
    printed = redacted("--text", TEXT, "-o", out)
    assert out.read_text() == SHOWN
    assert "email address" in printed and "jane" not in printed
    assert json.loads(redacted("--text", TEXT, "-o", out, "--json"))["found"] == {"email address": 1, "full person name": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_standard_output_by_its_sign_and_in_consoles_of_other_encodings(tmp_path):
    text = "Zoë 日本 \U0001f600 a@b.com"
    (tmp_path / "in.txt").write_text(text, encoding="utf-8")
    shown = "Zoë 日本 \U0001f600 [EMAIL]"
    assert redacted("in.txt", "-o", "-", cwd=tmp_path) == redacted("-", "-o", "-", stdin=text.encode()) == shown
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    finished = hushvec("redact", tmp_path / "in.txt", environment={"PYTHONIOENCODING": "cp1252"})
    assert (finished.code, finished.err, finished.out) == (0, "", shown)


FOLDER = {
    "letter.eml": (b"From: Wren <a@b.com>\r\n\r\nHi Wren\r\n", b"From: [PERSON] <[EMAIL]>\r\n\r\nHi [PERSON]\r\n"),
    "page.HTML": (b"<p>a<b>@b.com</b>", b"<p>[EMAIL]<b></b>"),
    "below/note.txt": ("Zoë: a@b.com\r\n".encode(), "Zoë: [EMAIL]\r\n".encode()),
    "below/note.md": (b"a@b.com", b"[EMAIL]"),
    "rows.csv": (b"id,mail\n7,a@b.com\n", b"id,mail\n7,[EMAIL]\n"),
    "one.json": (b'{"to": "a@b.com", "n": 1.0}', b'{"to": "[EMAIL]", "n": 1.0}'),
    "lines.jsonl": (b'{"to": "a@b.com"}\n\n{"n": 1}', b'{"to": "[EMAIL]"}\n\n{"n": 1}'),
}


@pytest.fixture
def folder(tmp_path):
    for name, (content, _) in FOLDER.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    (tmp_path / "in" / "scan.pdf").write_bytes(b"a@b.com")
    return tmp_path


def test_a_folder_is_redacted_into_a_new_one_by_the_suffixes_of_its_files(folder):
    printed = redacted("in", "-o", "out", cwd=folder)
    written = {path.relative_to(folder / "out").as_posix(): path.read_bytes() for path in (folder / "out").rglob("*.*")}
    assert written == {name: shown for name, (_, shown) in FOLDER.items()}
    assert printed.startswith("out\n") and printed.endswith("left out: scan.pdf\n")
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder / "out").rglob("*"))
    found = json.loads(redacted("in", "-o", "again", "--json", cwd=folder))
    assert (found["texts"], found["left_out"], found["found"]["email address"]) == (7, ["scan.pdf"], 8)  # one on both sides of a tag


def test_a_folder_of_pseudonyms_comes_back(folder):
    pytest.importorskip("cryptography")
    keyed = ("--key-file", "names.key")
    redacted("in", "-o", "out", "--pseudonyms", "v", *keyed, cwd=folder)
    assert not any(b"a@b.com" in path.read_bytes() for path in (folder / "out").rglob("*.*"))
    redacted("out", "-o", "back", "--restore", "v", *keyed, "--document", "in", cwd=folder)
    for name, (content, _) in FOLDER.items():
        assert (folder / "back" / name).read_bytes().replace(b"<b>", b"") == content.replace(b"<b>", b"")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["in"], "--output must be a new folder where in is one, got -"),
        (["in", "-o", "in"], "--output must be a new folder where in is one, got in"),
        (["in", "-o", "out", "--format", "mail"], "--lines, --text-key and --format must come with a file, got the folder in"),
        (["in", "-o", "out", "--lines"], "--lines, --text-key and --format must come with a file, got the folder in"),
        (["broken", "-o", "out"], "broken/a.json: text must be JSON"),
        (["broken2", "-o", "out"], "broken2/b.jsonl: line 2: text must be JSON"),
        (["broken3", "-o", "out"], "broken3/c.eml: text must be mail that can be read, got a part 'text/plain': unknown"),
        (["broken4", "-o", "out"], "broken4/d.txt: must be UTF-8 text, got byte 0xff at 0"),
    ],
)
def test_a_folder_that_cannot_be_redacted_leaves_nothing(folder, arguments, text):
    for name, content in (
        ("broken/a.json", b"{"),
        ("broken2/b.jsonl", b"1\n{\n"),
        ("broken3/c.eml", b"From: a\nContent-Type: text/plain; charset=x-y\n\nx"),
        ("broken4/d.txt", b"\xff"),
    ):
        (folder / name).parent.mkdir()
        (folder / name).write_bytes(content)
    before = sorted(folder.rglob("*"))
    assert_one_line(hushvec_here("redact", *arguments, cwd=folder), text)
    assert sorted(folder.rglob("*")) == before


def test_settings(tmp_path):
    (tmp_path / "names.txt").write_text("project: Nightjar\n")
    text = "Nightjar: E-12 by a@b.com from 10.0.0.1 to 10.0.0.2"
    assert redacted(
        "--text", text, "--patterns", "email, ip", "--allow-list", "10.0.0.2", "--gazetteer", tmp_path / "names.txt",
        "--pattern", r"badge=E-\d+", "--replace", "ip=<ip>",
    ) == "[PROJECT]: [BADGE] by [EMAIL] from <ip> to 10.0.0.2\n"  # fmt: skip
    assert redacted("--text", "a@b.com 10.0.0.1", "--replacement", "#", "--allow-categories", "ip address") == "# 10.0.0.1\n"


def test_lines(tmp_path):
    (tmp_path / "in.txt").write_text("mail a@b.com\n\nmy name is\nJane\n")
    assert redacted(tmp_path / "in.txt", "--lines") == "mail [EMAIL]\n\nmy name is\n[PERSON]\n"
    (first, *_) = redacted(tmp_path / "in.txt", "--lines", "--json").splitlines()
    assert json.loads(first)["spans"][0]["category"] == "email address"


def test_json_lines(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id": 1, "text": "mail a@b.com"}\n\n{"text": "é", "mail": "c@d.com"}\n')
    out = tmp_path / "out.jsonl"
    redacted(tmp_path / "in.jsonl", "--text-key", "text", "-o", out)
    assert [json.loads(line) for line in out.read_text().splitlines()] == [
        {"id": 1, "text": "mail [EMAIL]"},
        {"text": "é", "mail": "c@d.com"},
    ]


def test_a_json_string_may_hold_a_line_separator(tmp_path):
    """U+2028 ends a line to str.splitlines, and none of JSON lines."""
    (tmp_path / "in.jsonl").write_text('{"text": "mail \u2028 a@b.com"}\n', encoding="utf-8")
    out = tmp_path / "out.jsonl"
    redacted(tmp_path / "in.jsonl", "--text-key", "text", "-o", out)
    assert json.loads(out.read_text(encoding="utf-8")) == {"text": "mail \u2028 [EMAIL]"}


def test_the_list_of_rules():
    listed = json.loads(redacted("--list-rules", "--json"))
    assert [rule["name"] for rule in listed] == [rule.name for rule in rules()]
    assert redacted("--list-rules", "--patterns", "email").split()[:4] == ["email", "email", "address", "[EMAIL]"]
    assert "custom:badge" in redacted("--list-rules", "--pattern", "badge=E-1")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["absent.txt"], "absent.txt: No such file or directory"),
        (["binary.txt"], "binary.txt: must be UTF-8 text"),
        (["."], "--output must be a new folder where . is one, got -"),
        (["--text", "x", "file.txt"], "one of FILE and --text must be given, got both"),
        (["--text", "x", "--patterns", "emial"], "got 'emial', did you mean 'email'"),
        (["--text", "x", "--allow-categories", "emial"], "got 'emial', did you mean 'email'"),
        (["--text", "x", "--pattern", "E-1"], "--pattern must be NAME=TEXT, got 'E-1'"),
        (["--text", "x", "--pattern", "badge=("], "must be a regular expression"),
        (["--text", "x", "--pattern", "badge=x(a+)+"], "inside another one"),
        (["--text", "x", "--gazetteer", "absent.txt"], "No such file"),
        (["--text", "x", "-o", "absent/out.txt"], "the folder absent must exist"),
        (["--text", "x", "--show-original"], "--show-original must come with --json"),
        (["--text", "x", "-o", "."], ".: must be a plain file"),
        (["bad.jsonl", "--text-key", "text"], "bad.jsonl: line 2: not JSON"),
        (["good.jsonl", "--text-key", "other"], "good.jsonl: line 1: has no key 'other'"),
        (["good.jsonl", "--text-key", "id"], "'id' must be a string, got int"),
        (["--lines", "--text-key", "text"], "not allowed with argument"),
    ],
)
def test_bad_input(tmp_path, arguments, text):
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "good.jsonl").write_text('{"text": "a", "id": 1}\n')
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{\n')
    finished = hushvec_here("redact", *arguments, "-o", "out", cwd=tmp_path) if arguments[0] == "bad.jsonl" else hushvec_here(
        "redact", *arguments, cwd=tmp_path
    )  # fmt: skip
    assert_one_line(finished, text)
    assert not list(tmp_path.glob("out*")) and not list(tmp_path.glob(".out*"))


def test_who_may_read_the_input_may_read_the_output(tmp_path):
    """A private text has a private redaction; a text that came in otherwise is for the user alone."""
    (tmp_path / "in.txt").write_text(TEXT)
    for mode in (0o600, 0o640):
        (tmp_path / "in.txt").chmod(mode)
        (tmp_path / "out.txt").unlink(missing_ok=True)
        redacted(tmp_path / "in.txt", "-o", tmp_path / "out.txt")
        assert (tmp_path / "out.txt").stat().st_mode & 0o777 == mode
    redacted("--text", TEXT, "-o", tmp_path / "text.txt")
    assert (tmp_path / "text.txt").stat().st_mode & 0o777 == 0o600


NOTE = "Jane Doe wrote to a@b.com. Jane Doe called."


def test_pseudonyms_and_back(tmp_path):
    pytest.importorskip("cryptography")
    vault, key, out = tmp_path / "names.vault", tmp_path / "names.key", tmp_path / "out.txt"
    (tmp_path / "in.txt").write_text(NOTE)
    redacted(tmp_path / "in.txt", "--pseudonyms", vault, "--key-file", key, "-o", out)
    hidden = out.read_text()
    assert "Jane" not in hidden and "a@b.com" not in hidden and hidden.count(hidden.split(" ")[0]) == 2
    assert {path.stat().st_mode & 0o777 for path in (vault, key)} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "names.key", "names.vault", "out.txt"]
    assert redacted(out, "--restore", vault, "--key-file", key) == NOTE
    # A second document knows the same people and leaves the first ones in the vault.
    again = redacted("--text", "Ask Jane Doe or Max Muster.", "--pseudonyms", vault, "--key-file", key)
    assert hidden.split(" ")[0] in again
    back = ("--restore", vault, "--key-file", key, "--document")
    assert redacted(out, *back, tmp_path / "in.txt") == redacted(out, *back, "*") == NOTE
    other = redacted("--text", "Ask Jane Doe.", "--pseudonyms", vault, "--key-file", key, "--scope", "document")
    assert hidden.split(" ")[0] not in other


def test_a_text_brings_back_values_of_its_own_document_alone(tmp_path):
    pytest.importorskip("cryptography")
    keyed = ("--key-file", "names.key")
    (tmp_path / "a.txt").write_text(NOTE)
    shown = redacted("a.txt", "--pseudonyms", "v", *keyed, cwd=tmp_path)
    (tmp_path / "b.txt").write_text(f"Max Muster\nwrote {shown}\n")
    hidden = redacted("b.txt", "--lines", "--pseudonyms", "v", *keyed, "--scope", "document", cwd=tmp_path)
    for anything in (hidden, shown):
        (tmp_path / "answer.txt").write_text(anything)
        back = redacted("answer.txt", "--restore", "v", *keyed, "--document", "b.txt", cwd=tmp_path)
        assert back == (f"Max Muster\nwrote {shown}\n" if anything == hidden else shown)
    redacted("--text", "c@d.com", "--pseudonyms", "v", *keyed, "--document", "third", cwd=tmp_path)
    for asked, text in (
        ((), "hushvec redact: --document must name one of several in v, or be '*' for all: a.txt, b.txt, third\n"),
        (("--document", "c"), "hushvec redact: --document must be one that v has, got 'c': a.txt, b.txt, third\n"),
    ):
        finished = hushvec_here("redact", "answer.txt", "--restore", "v", *keyed, *asked, cwd=tmp_path)
        assert (finished.code, finished.out, finished.err) == (2, "", text)


def test_pseudonyms_line_by_line_and_in_json_lines(tmp_path):
    pytest.importorskip("cryptography")
    keyed = ("--key-file", tmp_path / "names.key")
    (tmp_path / "in.txt").write_text("Jane Doe\n\nask Jane Doe\n")
    hidden = redacted(tmp_path / "in.txt", "--lines", "--pseudonyms", tmp_path / "v", *keyed)
    assert len(set(hidden.replace("ask ", "").split())) == 1
    content = '{"id": 1, "note": "say \\"a@b.com\\""}\n\n{"note": ["é 10.0.0.1"]}\n'
    (tmp_path / "in.jsonl").write_text(content)
    out = tmp_path / "out.jsonl"
    asked = ("--pseudonyms", tmp_path / "v", *keyed, "--document", "rows")
    redacted(tmp_path / "in.jsonl", "--format", "jsonl", *asked, "-o", out)
    assert "a@b.com" not in out.read_text() and "10.0.0.1" not in out.read_text()
    assert redacted(out, "--format", "jsonl", "--restore", tmp_path / "v", *asked[2:]) == content


def test_formats(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"id,note\r\n7,mail a@b.com\r\n")
    assert redacted(tmp_path / "in.csv", "--format", "csv", "--columns", "note") == "id,note\r\n7,mail [EMAIL]\r\n"
    assert redacted("--text", "a;b\n1;c@d.com", "--format", "csv", "--delimiter", ";") == "a;b\n1;[EMAIL]\n"
    (tmp_path / "in.json").write_text('{"to": "a@b.com", "n": 1.0}')
    assert redacted(tmp_path / "in.json", "--format", "json") == '{"to": "[EMAIL]", "n": 1.0}'
    (tmp_path / "in.eml").write_text("From: Xyzzy <a@b.com>\n\nHi\n")
    assert redacted(tmp_path / "in.eml", "--format", "mail") == "From: [PERSON] <[EMAIL]>\n\nHi\n"
    assert redacted(tmp_path / "in.eml", "--format", "mail", "--patterns", "email") == "From: Xyzzy <[EMAIL]>\n\nHi\n"
    assert redacted("--text", "<p title='a@b.com'>a@<b>b.com</b>", "--format", "html") == "<p title='[EMAIL]'>[EMAIL]<b></b>\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--pseudonyms", "v"], "--pseudonyms and --restore must come with --key-file"),
        (["--key-file", "good.key"], "--key-file must come with --pseudonyms or --restore"),
        (["--document", "a"], "--document must come with --pseudonyms or --restore"),
        (["--pseudonyms", "v", "--key-file", "good.key", "--document", "*"], "--document must be a name where pseudonyms are written"),
        (["--columns", "a"], "--columns must come with --format csv"),
        (["--format", "csv", "--columns", "a"], "columns must name columns of the header, got 'a'"),
        (["--format", "json"], "text must be JSON"),
        (["--format", "jsonl"], "standard input: line 1: text must be JSON"),
        (["--format", "mail"], "text must begin with a header"),
        (["--format", "csv", "--lines"], "not allowed with argument"),
        (["--restore", "absent", "--key-file", "good.key"], "absent: No such file or directory"),
        (["--restore", "broken", "--key-file", "good.key"], "broken: must be a vault of pseudonyms, is another kind of file"),
        (["--restore", "v", "--key-file", "other.key"], "v: must be opened with the key that it was written with, unchanged"),
        (["--pseudonyms", "v", "--key-file", "other.key"], "v: must be opened with the key that it was written with, unchanged"),
        (["--pseudonyms", "v", "--key-file", "absent.key"], "absent.key: No such file or directory"),
        (["--pseudonyms", "new", "--key-file", "broken"], "broken: must hold a key of at least 32 bytes in hexadecimal"),
    ],
)
def test_bad_pseudonyms_and_formats(tmp_path, arguments, text):
    pytest.importorskip("cryptography")
    from hushvec.text import write_vault

    (tmp_path / "good.key").write_text("01" * 32)
    (tmp_path / "other.key").write_text("02" * 32)
    (tmp_path / "broken").write_text("x")
    write_vault(tmp_path / "v", {"[PERSON_AAAA]": "Jane Doe"}, b"\1" * 32)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    finished = hushvec_here("redact", "--text", "secret a@b.com", *arguments, cwd=tmp_path)
    assert_one_line(finished, text)
    assert "secret" not in finished.err and "Jane" not in finished.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
