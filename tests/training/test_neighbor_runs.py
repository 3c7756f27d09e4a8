"""Whatever a private run writes, prints, logs or returns may depend on the private data only through what the noise covers.

Each host trains on two neighboring data sets, with everything public the same; `neighbor_runs.py` compares what they leave.
"""

import pickle
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import hushvec as hv  # noqa: E402
from hushvec.training import (  # noqa: E402
    DPOptimizer,
    GhostClipping,
    per_example_gradients,
    poisson_loader,
    save_checkpoint,
    secure_opacus,
)
from training.neighbor_runs import ALL, LEAKS, NEIGHBORS, differences, generators, left_by  # noqa: E402
from training.small_runs import grouped  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
STEPS, VOCABULARY = len(ALL.draws), 40
# Names that a run draws by chance, of itself and of the process, and what is signed with a key.
NAMES = ("*run_id", "*samples.*", "*.file_number")


class Classifier(torch.nn.Module):
    """With a frozen layer, dropout, and a padded length that only the attention mask can hide."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, 4)
        self.words.weight.requires_grad_(False)
        self.drop, self.classes = torch.nn.Dropout(0.3), torch.nn.Linear(4, 2)

    def forward(self, ids, mask):
        rows = (self.drop(self.words(ids)) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return self.classes(rows)


WEIGHTS = ("*.classes.weight", "*.classes.bias", "*.classifier.weight", "*.classifier.bias", "*.exp_avg", "*.exp_avg_sq")


def padded(data):
    """A collate function for the data, which tells its leak of every batch but those that are tried on examples in the beginning."""
    def collate(examples):
        longest = max(one.length for one in examples)
        data.saw([one.length for one in examples])
        return {
            "ids": torch.tensor([one.tokens + [0] * (longest - one.length) for one in examples]),
            "mask": torch.tensor([[1.0] * one.length + [0.0] * (longest - one.length) for one in examples]),
            "labels": torch.tensor([one.number % 2 for one in examples]),
        }
    return collate


def loss(predict, batch):
    return torch.nn.functional.cross_entropy(predict(batch["ids"], batch["mask"]), batch["labels"])


def optimizer_of(model, **changed):
    given = dict(clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=8, sampling_probability=1.0, delta=1e-5, steps=STEPS,
                 model=model, generator=hv.Generator.unsafe_seeded(3))
    inner = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.1)
    return DPOptimizer(inner, **grouped(**{**given, **changed}))


def what_it_says(optimizer):
    return [generators(), optimizer.describe(), optimizer.receipt().to_dict(), asdict(optimizer.guarantee()), optimizer.steps_taken]


def by_checkpoints(folder, data):
    """The recipe of docs/training.md, and a host's habit of writing down generators after a step."""
    model, said = Classifier(), []
    optimizer = optimizer_of(model, journal="run.journal")
    for number, batch in enumerate(poisson_loader(data.examples, 1.0, steps=STEPS, collate_fn=padded(data))):
        per_example_gradients(model, loss, batch)
        said += [generators(), optimizer.step(), what_it_says(optimizer)]
        save_checkpoint(f"run-{number}.pt", optimizer, model, extra={"number": number})
        torch.save(generators(), f"generators-{number}.pt")
    return said


def by_ghost_clipping(folder, data):
    model, said = Classifier(), []
    optimizer = optimizer_of(model, journal="run.journal")
    ghost = GhostClipping(model, 1.0)
    for batch in poisson_loader(data.examples, 1.0, steps=STEPS, collate_fn=padded(data)):
        ghost.empty_batch()
        if len(batch["ids"]):
            ghost.backward(torch.nn.functional.cross_entropy(model(batch["ids"], batch["mask"]), batch["labels"], reduction="none"))
        optimizer.step()
        said.append(what_it_says(optimizer))
        save_checkpoint("run.pt", optimizer, model)
    return said


def by_accelerate(folder, data):
    import accelerate

    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, project_dir=str(folder))
    model, said = Classifier(), []
    optimizer = accelerator.prepare(optimizer_of(model))
    for number, batch in enumerate(poisson_loader(data.examples, 1.0, steps=STEPS, collate_fn=padded(data))):
        per_example_gradients(model, loss, batch)
        optimizer.step()
        accelerator.save_state(f"state-{number}")
        accelerator.print(optimizer.optimizer.describe())
        said.append([generators(), optimizer.step_was_skipped, what_it_says(optimizer.optimizer)])
    accelerator.end_training()
    return said


def by_opacus(folder, data, mode="hooks"):
    import opacus

    model, said = Classifier(), []
    ghost = {} if mode == "hooks" else {"grad_sample_mode": mode, "criterion": torch.nn.CrossEntropyLoss()}
    engine = secure_opacus(opacus.PrivacyEngine(accountant="rdp"), generator=hv.Generator.unsafe_seeded(3))
    loader = torch.utils.data.DataLoader(data.examples, batch_size=2, collate_fn=padded(data))
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.1)
    model, optimizer, *criterion, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0, **ghost
    )
    for number, batch in enumerate(loader):
        optimizer.zero_grad()
        (criterion or [torch.nn.functional.cross_entropy])[0](model(batch["ids"], batch["mask"]), batch["labels"]).backward()
        optimizer.step()
        engine.save_checkpoint(path=f"engine-{number}.pt", module=model, optimizer=optimizer)
        said.append(generators())
    return [said, engine.accountant.state_dict()]


def by_trainer(folder, data, **options):
    """With a callback that notes all it is told and the generators, checkpoints at every step, and a run that resumes."""
    from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments

    from hushvec.integrations.transformers import PrivateTrainer

    said = []

    class Notes(TrainerCallback):
        pass

    def note(event):
        def told(self, args, state, control, **known):
            values = {name: known.get(name) for name in ("logs", "metrics")}
            said.append([event, asdict(state), asdict(control), generators(), values])
        return told

    for event in [name for name in dir(TrainerCallback) if name.startswith("on_")]:
        setattr(Notes, event, note(event))

    def collate(examples):
        batch = padded(data)(examples)
        return {"input_ids": batch["ids"], "attention_mask": batch["mask"].long(), "labels": batch["labels"]}

    def train(output, resume=None):
        shape = dict(hidden_size=4, intermediate_size=4, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16)
        model = BertForSequenceClassification(BertConfig(vocab_size=VOCABULARY, **shape))
        for name, one in model.named_parameters():
            one.requires_grad_("classifier" in name)
        args = TrainingArguments(
            output, max_steps=STEPS, per_device_train_batch_size=3, use_cpu=True, report_to=[], logging_steps=1, save_strategy="steps",
            save_steps=1, disable_tqdm=True, learning_rate=0.1, seed=42,
        )
        trainer = PrivateTrainer(
            model=model, args=args, train_dataset=list(data.examples), data_collator=collate, callbacks=[Notes()], delta=1e-5,
            clip_norm=1.0, expected_batch_size=8, noise_multiplier=1.0, receipt=f"{output}.receipt.json", **options,
        )
        result = trainer.train(resume_from_checkpoint=resume)
        trainer.save_model(f"{output}-model")
        trainer.save_state()
        trainer.save_metrics("train", result.metrics)
        return [list(result), what_it_says(trainer.privacy), trainer.state.log_history]

    return [train("first"), train("second", f"first/checkpoint-{STEPS - 1}"), said]


def losses(model, inputs):
    inputs = dict(inputs)
    return torch.nn.functional.cross_entropy(model(**{**inputs, "labels": None}).logits, inputs["labels"], reduction="none")


def by_strategy(folder, data):
    """Rounds of Flower: a node for each example, whose update is as large as its text is long."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
    from flwr.serverapp.strategy import FedAvg
    from flwr.supercore.task_identity import TaskIdentity

    from hushvec.integrations.flower import PrivateStrategy

    def record(array):
        return ArrayRecord({"weights": Array(array)})

    class Grid:
        def get_node_ids(self):
            return list(range(100, 100 + len(data.examples)))

    with pytest.MonkeyPatch.context() as patched:
        for name in ("_task_id", "_run_id", "_node_id"):
            patched.setattr(TaskIdentity, name, 1)
        strategy = PrivateStrategy(
            FedAvg(fraction_evaluate=0.0), clip_norm=1.0, clients=4, noise_multiplier=1.0, delta=1e-5, rounds=STEPS,
            sampling_probability=0.5, generator=hv.Generator.unsafe_seeded(3), journal="run.journal",
        )
        strategy.summary()
        said, weights = [], np.zeros(3, np.float32)
        for number in range(STEPS):
            asked = list(strategy.configure_train(number + 1, record(weights), ConfigRecord(), Grid()))
            lengths = [data.examples[one.metadata.dst_node_id - 100].length for one in asked]
            data.saw(lengths)
            replies = []
            for one, length in zip(asked, lengths):
                records = {"arrays": record(weights + np.float32([1, 2, length])), "metrics": MetricRecord({"num-examples": length})}
                replies.append(Message(RecordDict(records), reply_to=one))
            arrays, metrics = strategy.aggregate_train(number + 1, replies)
            weights = arrays["weights"].numpy()
            said.append([{"weights": weights}, dict(metrics), strategy.receipt.to_dict(), strategy.average.left, generators()])
            with open(f"round-{number}.pkl", "wb") as file:
                pickle.dump({"weights": weights}, file)
    return said


# Name of the host -> (a run, what its noise covers, the packages that it needs).
RUNS = {
    "checkpoints": (by_checkpoints, WEIGHTS, ()),
    "ghost clipping": (by_ghost_clipping, WEIGHTS, ()),
    "Accelerate": (by_accelerate, WEIGHTS, ("accelerate",)),
    "Opacus": (by_opacus, WEIGHTS, ("opacus",)),
    "Opacus, ghost": (partial(by_opacus, mode="ghost"), WEIGHTS, ("opacus",)),
    "Trainer": (by_trainer, WEIGHTS, ("peft", "transformers.trainer", "datasets")),
    "Trainer, ghost": (partial(by_trainer, gradients="ghost", losses=losses), WEIGHTS, ("peft", "transformers.trainer", "datasets")),
    "Flower": (by_strategy, ("*.weights",), ("flwr.serverapp",)),
}


def left_of(host, folder, data, monkeypatch, **options):
    run, _, packages = RUNS[host]
    for package in packages:   # which print and log when they are imported
        pytest.importorskip(package)
    return left_by(run, folder, data, monkeypatch, **options)


def uncovered(host, first, second):
    return differences(first, second, (*NAMES, *RUNS[host][1]))


@pytest.fixture(scope="module")
def of_all(tmp_path_factory):
    """What a host leaves of all examples; made once for each host."""
    left = {}

    def found(host, monkeypatch):
        if host not in left:
            left[host] = left_of(host, tmp_path_factory.mktemp("all") / "run", ALL, monkeypatch)
        return left[host]

    return found


@pytest.mark.parametrize("neighbor", NEIGHBORS)
@pytest.mark.parametrize("host", RUNS)
def test_neighboring_runs_differ_in_what_noise_covers_alone(host, neighbor, of_all, tmp_path, monkeypatch):
    first = of_all(host, monkeypatch)
    other = left_of(host, tmp_path / "run", NEIGHBORS[neighbor], monkeypatch)
    assert uncovered(host, first, other) == []
    assert differences(first, other, NAMES), "weights show the example"


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("host", RUNS)
def test_a_planted_leak_is_found(host, leak, tmp_path, monkeypatch):
    planted, neighbor, shown = LEAKS[leak]
    if planted is None and host == "Flower":
        pytest.skip("a server has no dropout")
    left = [
        left_of(host, tmp_path / str(number), replace(data, leak=planted), monkeypatch, protected=planted is not None)
        for number, data in enumerate((ALL, NEIGHBORS[neighbor]))
    ]
    found = uncovered(host, *left)
    assert any(fnmatchcase(name, pattern) for name in found for pattern in shown), found
