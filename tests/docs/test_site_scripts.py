"""How the site turns links of the repository into its own, and notebooks into pages."""

import base64
import importlib.util
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts" / "site"


def script(name):
    spec = importlib.util.spec_from_file_location(f"site_{name}", SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


places, notebooks = script("places"), script("notebooks")
THREADS = "bench/results/threads-amd-epyc-2-cores.svg"
whole = pytest.mark.skipif(not (SCRIPTS.parents[1] / THREADS).exists(), reason="a source distribution has no results")
NAMES = {"privatize": "hushvec.privatize", "hv.privatize": "hushvec.privatize"}


@pytest.mark.parametrize(
    "page, text, shown",
    [
        ("budget.md", "[a](receipts.md#fields)", "[a](receipts.md#fields)"),
        ("budget.md", "[a](../ARCHITECTURE.md)", "[a](architecture.md)"),
        ("proofs/gaussian.md", "[a](../../ARCHITECTURE.md#rooms)", "[a](../architecture.md#rooms)"),
        ("changelog.md", "[a](docs/format.md)", "[a](format.md)"),
        ("architecture.md", "[a](docs/proofs)", "[a](proofs.md)"),
        pytest.param("design.md", f"![a](../{THREADS})", f"![a](source/{THREADS})", marks=whole),
        ("start/record.md", "[a](../../examples/private_search.py)", "[a](../source/examples/private_search.py.md)"),
        ("start/record.md", "`examples/private_search.py`", "[`examples/private_search.py`](../source/examples/private_search.py.md)"),
        ("start/record.md", "[`privatize`](../budget.md)", "[`privatize`](../budget.md)"),
        ("budget.md", "`privatize`, `privatize` and `privat`", "[`privatize`][hushvec.privatize], `privatize` and `privat`"),
        ("budget.md", "## `privatize`\n\n`hv.privatize()`", "## `privatize`\n\n[`hv.privatize()`][hushvec.privatize]"),
        ("budget.md", "```python\n`privatize` [a](../ARCHITECTURE.md)\n```", "```python\n`privatize` [a](../ARCHITECTURE.md)\n```"),
        ("budget.md", "[a](https://example.com/x.md) [b](#here)", "[a](https://example.com/x.md) [b](#here)"),
        ("budget.md", "[a](gone.md)", "[a](gone.md)"),
    ],
)
def test_a_link_of_the_repository_becomes_one_of_the_site(page, text, shown):
    assert places.with_links_of_the_site(page, text, NAMES) == shown


def test_files_outside_docs_are_found_by_links_and_by_names_of_programs():
    links = "[a](../LICENSE) [b](budget.md) [c](../ARCHITECTURE.md) [home](../README.md)"
    text = f"{links} `scripts/check_receipt.py` `scripts/gone.py`\n```\n[d](../Makefile)\n```\n"
    assert places.files_named_by("receipts.md", text) == {"LICENSE", "scripts/check_receipt.py"}


def cell(source, *outputs):
    return {"cell_type": "code", "source": source, "outputs": list(outputs)}


def test_a_notebook_becomes_markdown_with_its_outputs():
    picture = {"output_type": "display_data", "data": {"image/png": base64.b64encode(b"png").decode(), "text/plain": "<Figure>"}}
    table = {"output_type": "execute_result", "data": {"text/html": ["<table>\n", "\n", "</table>"], "text/plain": "a table"}}
    stream = {"output_type": "stream", "text": ["one\n", "\x1b[31mtwo\x1b[0m\n"]}
    words = {"cell_type": "markdown", "source": ["# Title\n", "words"]}
    cells = [words, cell("print('```')", stream), cell("plot()", picture, table), cell("")]
    text, images = notebooks.as_markdown({"cells": cells}, "search")
    assert text == (
        "# Title\nwords\n\n````python\nprint('```')\n````\n\n```text { .output }\none\ntwo\n```\n\n"
        '```python\nplot()\n```\n\n![](search_1.png)\n\n<div class="output">\n<table>\n</table>\n</div>\n'
    )
    assert images == {"search_1.png": b"png"}


def test_an_error_of_a_notebook_is_shown():
    error = {"output_type": "error", "traceback": ["Traceback", "ValueError: epsilon must be > 0, got -1"]}
    assert "ValueError: epsilon must be > 0, got -1" in notebooks.as_markdown({"cells": [cell("f()", error)]}, "x")[0]
