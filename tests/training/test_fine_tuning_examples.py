"""The fine-tuning programs of README.md and docs/lora.md: their sums are exact, and their receipts hold."""

import pytest

import hushvec as hv

pytest.importorskip("peft")
from docs.blocks import program_of, python_blocks  # noqa: E402


def names_of(block, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names = {"__name__": "__main__"}
    exec(compile(program_of(block), str(block), "exec"), names)
    return names


def test_the_readme_trains_an_adapter_with_a_claim(monkeypatch, tmp_path, capsys):
    (block,) = [block for block in python_blocks("README.md") if "add_lora(" in block.code]
    optimizer = names_of(block, monkeypatch, tmp_path)["optimizer"]
    assert capsys.readouterr().out.startswith("holds ")
    require_exact(optimizer)


def test_the_guide_has_an_exact_example_and_ghost_clipping_as_the_option(monkeypatch, tmp_path, capsys):
    exact, ghost = python_blocks("docs/lora.md")
    names = names_of(ghost, monkeypatch, tmp_path)   # it continues the first block
    printed = capsys.readouterr().out
    assert "grade exact" in printed and "grade float" in printed and "GhostClipping" not in exact.code
    guarantee, receipt = names["optimizer"].guarantee(), names["optimizer"].receipt()
    assert guarantee.grade == "float" and not guarantee.is_dp_claim and hv.verify_receipt(receipt).status == "not a DP claim"
    assert names["optimizer"].epsilon() > 2.0001, "the second run adds to the first"


def require_exact(optimizer):
    guarantee = optimizer.guarantee()
    assert guarantee.grade == "exact" and guarantee.is_dp_claim and guarantee.steps == guarantee.planned_steps == 20
    assert 1.99 < guarantee.epsilon <= 2.0
    assert hv.verify_receipt(optimizer.receipt()).status == "holds"
