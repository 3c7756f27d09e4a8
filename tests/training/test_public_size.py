"""What a training publishes must not follow from the exact number of examples: n and n - 1 of them look alike."""

import dataclasses
import warnings

import pytest
import torch
from hypothesis import given, settings, strategies

from evidence.reference.sizes import scaled
from hushvec.training import Account, DPOptimizer, per_example_gradients, poisson_loader, secure_opacus
from hushvec.training.sampler import is_round

sizes = strategies.integers(101, 3000)


def trained(size, *, of=None, adjacency="add-remove", batch=64):
    """The receipt of one step on `size` examples, with what docs/training.md makes of their public number `of`."""
    model, q = torch.nn.Linear(2, 1), batch / (of or size)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), clip_norm=1.0, noise_multiplier=30.0, expected_batch_size=batch,
        sampling_probability=q, delta=1e-5, steps=1, model=model, account=Account(adjacency=adjacency),
    )
    for (rows,) in poisson_loader(torch.utils.data.TensorDataset(torch.ones(size, 2)), q, steps=1):
        per_example_gradients(model, lambda predict, row: predict(row).sum(), rows)
        optimizer.step()
    return optimizer.receipt()


@settings(max_examples=scaled(3, 100), deadline=None)
@given(sizes)
def test_receipts_of_n_and_one_less_are_the_same(size):
    """But for which samples these were."""
    of = int(float(f"{size:.1e}"))
    first, second = (dataclasses.replace(trained(n, of=of), samples=()).to_dict() for n in (size, size - 1))
    assert first == second and first["is_dp_claim"] and first["sampling_probability"] == 64 / of


@settings(max_examples=scaled(8, 100), deadline=None)
@given(sizes)
def test_a_probability_of_the_exact_number_is_refused(size):
    if is_round(size):
        assert trained(size).is_dp_claim
        return
    with pytest.raises(ValueError, match=rf"of a public, rounded number of examples under add-remove, got expected.* / {size},"):
        trained(size)


def test_where_the_number_is_public_the_claim_is_about_replacement():
    assert trained(1999, adjacency="replace-one").adjacency == "replace-one"


def engine_of(size, epsilon=None, **options):
    from opacus import PrivacyEngine

    data = torch.utils.data.TensorDataset(torch.zeros(size, 4), torch.zeros(size, 1))
    model = torch.nn.Linear(4, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = secure_opacus(PrivacyEngine(accountant="gdp"), **options)
        make, terms = engine.make_private, {"noise_multiplier": 1.0}
        if epsilon is not None:
            make, terms = engine.make_private_with_epsilon, {"target_epsilon": epsilon, "target_delta": 1e-5, "epochs": 1}
        model, optimizer, loader = make(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), max_grad_norm=1.0,
            data_loader=torch.utils.data.DataLoader(data, batch_size=64), **terms,
        )
        for rows, labels in loader:
            torch.nn.functional.mse_loss(model(rows), labels).backward()
            optimizer.step()
            break
    return optimizer.expected_batch_size, optimizer.noise_multiplier, len(loader), engine.accountant.history


@pytest.mark.parametrize("epsilon", [None, 4.0])
def test_opacus_divides_by_what_follows_from_the_public_number(epsilon):
    """640 rows and 639 were told apart by what sums were divided by, 640 and 641 by the rate."""
    alike = [engine_of(size, epsilon, public_size=640) for size in (639, 640, 641)]
    assert alike[0] == alike[1] == alike[2] and alike[0][0] == 64 and alike[0][2] == 10
    assert engine_of(640, epsilon) == alike[0]
    with pytest.raises(ValueError, match=r"public_size must be given for 639 examples, got None: .* such as 640"):
        engine_of(639, epsilon)


def test_the_trainer_takes_a_public_number(tmp_path):
    transformers = pytest.importorskip("transformers")
    from hushvec.integrations.transformers import PrivateTrainer

    shape = dict(
        vocab_size=8, hidden_size=4, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=4
    )

    def published(size, **options):
        model = transformers.BertForSequenceClassification(transformers.BertConfig(**shape))
        trainer = PrivateTrainer(
            model=model, train_dataset=[{"input_ids": [1, 2], "labels": 0}] * size, noise_multiplier=1.0, delta=1e-5, clip_norm=1.0,
            args=transformers.TrainingArguments(tmp_path, max_steps=1, report_to=[], use_cpu=True), expected_batch_size=8,
            **options,
        )
        return trainer.privacy.settings, len(trainer.get_train_dataloader())

    assert published(201, public_size=200) == published(200, public_size=200) == published(200)
    assert published(201, account=Account(adjacency="replace-one"))[0].sampling_probability == 8 / 201
    with pytest.raises(ValueError, match="public_size must be given for 201 examples, got None"):
        published(201)
