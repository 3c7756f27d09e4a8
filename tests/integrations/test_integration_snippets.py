"""The snippets of docs/integrations.md run, each after the first block, which all of them continue."""

import re

import pytest

from docs.blocks import program_of, python_blocks
from integrations import adapter_cases

_, *SNIPPETS = python_blocks("docs/integrations.md")
GROWING = next(snippet for snippet in SNIPPETS if "person_key" in snippet.code)
SNIPPETS.remove(GROWING)
NEEDS = {
    "langchain": "langchain_core",
    "llama_index": "llama_index",
    "haystack": "haystack",
    "chroma": "chromadb",
    "sentence_transformers": "sentence_transformers",
    "sklearn": "sklearn",
    "openai": "json",
    "langchain_store": "langchain_core",
    "llama_index_store": "llama_index",
    "haystack_store": "haystack",
}
STORES = ("langchain_store", "llama_index_store", "haystack_store")


def library_of(snippet):
    return re.search(r"hushvec\.integrations\.(\w+)", snippet.code).group(1)


def test_every_adapter_has_a_snippet():
    assert sorted(map(library_of, SNIPPETS)) == sorted([*adapter_cases.HOSTS, *STORES]) == sorted(NEEDS)


def test_a_store_that_grows_charges_everyone_once(capsys):
    pytest.importorskip("langchain_core")
    names = {}
    exec(program_of(GROWING), names)
    assert capsys.readouterr().out == "('3-a',)\n"
    assert (names["budget"].consumed(), names["budget"].state().rows, len(names["index"])) == (16.0, 102, 201)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=library_of)
def test_a_snippet_runs_and_is_charged(snippet):
    pytest.importorskip(NEEDS[library_of(snippet)])
    names = {}
    exec(program_of(snippet), names)
    assert names["budget"].consumed() > 0
    if library_of(snippet) == "openai":
        assert names["receipt"].epsilon == 8.0
    else:
        assert sum(receipt.epsilon for receipt in names["receipts"]) <= names["budget"].consumed()
        assert names["receipts"]
