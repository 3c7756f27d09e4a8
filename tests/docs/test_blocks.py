"""Every Python block of README.md and docs runs as a reader pastes it, in a fresh namespace and an empty folder."""

import pytest

from docs.blocks import ROOT, pages, program_of, python_blocks

# Words of a block, the only one on its page that has them, and why it cannot run here.
NOT_HERE = {
    ("README.md", "add_lora("): "tests/training/test_fine_tuning_examples.py runs it and looks at the receipt",
    ("docs/federated_server.md", "def rows_of"): "it needs Flower; tests/integrations/flower_processes.py runs it",
    ("docs/federated_server.md", "rows_of(1000)"): "it needs Flower; tests/integrations/flower_processes.py runs it",
    ("docs/federated_client.md", "mods=[private]"): "it needs Flower; tests/integrations/test_flower.py runs it",
    ("docs/federated_client.md", "hushvec.integrations.nvflare"): "tests/integrations/nvflare_job makes these calls",
    ("docs/federated_client.md", "SecAggPlusWorkflow("): "tests/training/secagg/test_flower_workflow.py runs them",
    ("docs/inverters.md", '"jxm/gtr__nq__32"'): "it downloads checkpoints",
    ("docs/inverters.md", '"models/gtr__nq__32"'): "it reads downloaded checkpoints",
    ("docs/performance.md", 'device="cuda"'): "it needs a GPU",
    ("docs/performance.md", "hushvec.integrations.jax"): "it needs JAX; tests/integrations/test_jax.py runs the same calls",
    ("docs/training_hosts.md", "hushvec.integrations.jax"): "it needs JAX; tests/integrations/test_jax_training.py runs it",
    ("docs/training_scale.md", "init_process_group("): "it needs several processes; tests/training/test_distributed.py has them",
    ("docs/training_scale.md", "fully_shard(layer)"): "it needs torch.distributed; tests/training/test_sharded.py runs it",
    ("docs/serve.md", "OpenAI("): "it needs a running service; tests/serve/test_openai_clients.py runs the same calls",
    ("docs/serve.md", "/v1/topics"): "it needs a running service; tests/serve/test_topics_endpoint.py runs it with one",
    ("docs/retrieval.md", "postgresql://"): "it needs a server; tests/retrieval runs the same calls on one",
}
# The same for blocks that take more than some 3 s: they run with HUSHVEC_TEST_SCALE=full.
SLOW = {
    ("docs/inverters.md", "PublicChoice(corpus"),
    ("docs/inverters.md", "train_inverter("),
}
# Pages whose blocks run in another test, which says more about what they print or charge.
ELSEWHERE = {
    "docs/integrations.md": "tests/integrations/test_integration_snippets.py",
    "docs/lora.md": "tests/training/test_fine_tuning_examples.py",
    "docs/retrieval_measures.md": "tests/retrieval/test_measures_guide.py",
}


BLOCKS = [block for page in pages() if page not in ELSEWHERE for block in python_blocks(page)]


def named(block, table):
    return next(((page, words) for page, words in table if page == block.page and words in block.code), None)


def parameters():
    for block in BLOCKS:
        marks = []
        if found := named(block, NOT_HERE):
            marks.append(pytest.mark.skip(reason=NOT_HERE[found]))
        if named(block, SLOW):
            marks.append(pytest.mark.full)
        yield pytest.param(block, id=str(block), marks=marks)


@pytest.mark.filterwarnings("ignore:Secure RNG turned off", "ignore:Full backward hook is firing")   # by Opacus
@pytest.mark.parametrize("block", list(parameters()))
def test_a_block_runs_when_pasted(block, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUSHVEC_BUDGET_STORE", str(tmp_path / "budget.sqlite"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code = program_of(block)
    names = {"__name__": "__main__"}
    exec(compile(code, str(block), "exec"), names)
    assert len(names) > 1


@pytest.mark.parametrize(("page", "words"), sorted([*NOT_HERE, *SLOW]))
def test_a_block_that_is_left_out_is_there_once(page, words):
    assert sum(words in block.code for block in python_blocks(page)) == 1


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_a_page_that_runs_elsewhere_does(page, test):
    assert python_blocks(page)
    assert page in (ROOT / test).read_text(encoding="utf-8")
