"""Private draws come from the operating system and leave no trace in the generators that hosts write down."""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from hushvec.training import GhostClipping, per_example_gradients, poisson_loader  # noqa: E402
from hushvec.training.global_generators import forget_draws, seed_from_system, undisturbed  # noqa: E402
from training.neighbor_runs import generators  # noqa: E402
from training.small_runs import examples_of, loss, optimizer_of  # noqa: E402


def seed_all(seed):
    for one in (torch.manual_seed, np.random.seed, random.seed):
        one(seed)


def drawn():
    return [*torch.rand(3, dtype=torch.float64).tolist(), *np.random.random(3).tolist(), random.random()]


def same(first, second):
    return repr(first) == repr(second) and torch.equal(first["torch"], second["torch"])


def with_dropout():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(3, 2))


def nothing():
    pass


@pytest.fixture(autouse=True, params=[nothing, seed_from_system, forget_draws])
def _as_before(request):
    """Each test in a fresh process's state, in that after a forward pass without a step, and in that after a step."""
    before = torch.get_rng_state(), np.random.get_bit_generator(), random.getstate()
    request.param()
    yield
    torch.set_rng_state(before[0])
    np.random.set_bit_generator(before[1])
    random.setstate(before[2])


def test_draws_inside_are_unseen_and_those_outside_go_on():
    seed_all(1)
    whole = [drawn(), drawn()]
    seed_all(1)
    first, inside = drawn(), []
    for _ in range(2):
        with undisturbed():
            inside += drawn()
    assert [first, drawn()] == whole and len({*inside, *whole[0], *whole[1]}) == 28, "nobody can repeat what was drawn inside"
    with pytest.raises(KeyError), undisturbed():
        raise KeyError
    seed_all(1)
    assert drawn() == whole[0]


@pytest.mark.parametrize("leave", [seed_from_system, forget_draws])
def test_seeds_that_a_program_sets_say_nothing_of_what_comes_from_the_system(leave):
    found = []
    for _ in range(2):
        leave()
        seed_all(1)
        seed_from_system()
        found += drawn()
    assert len({*found}) == 14


def test_all_words_of_torchs_generator_come_from_the_system(monkeypatch):
    """The next numbers are those of Python's Mersenne Twister with these words, of which the seed keeps none."""
    words = np.random.default_rng(3).integers(0, 2**32, 624, dtype=np.uint32)
    monkeypatch.setattr("os.urandom", lambda count: words.tobytes()[:count])
    torch.manual_seed(77)
    seed_from_system()
    found = torch.empty(2000, dtype=torch.int64).random_(0, 2**31).tolist()
    twister = random.Random()
    twister.setstate((3, (*map(int, words), 624), None))
    assert found == [twister.getrandbits(64) >> 32 & (2**31 - 1) for _ in found] and torch.initial_seed() == 77


def test_what_is_left_depends_on_the_seed_and_the_number_of_steps_alone():
    left = []
    for seed, before in ((1, 0), (1, 5), (2, 0)):
        seed_all(seed)
        for _ in range(before):
            drawn()
        states = []
        for _ in range(3):
            seed_from_system()
            drawn()
            forget_draws()
            states.append((generators(), drawn()))
        left.append(states)
    assert all(same(one[0], other[0]) and one[1] == other[1] for one, other in zip(left[0], left[1]))
    assert len({numbers for states in left for _, drew in states for numbers in drew}) == 2 * 3 * 7, "no number is drawn twice"
    seed_all(1)
    assert np.random.get_state()[0] == "MT19937", "hosts write NumPy's state in this form"


@pytest.mark.parametrize("vectorize", [True, False])
def test_dropout_works_and_its_masks_do_not_come_from_the_seed(vectorize):
    model, batch, found = with_dropout(), examples_of(40), []
    for _ in range(2):
        seed_all(4)
        before = generators()
        per_example_gradients(model, loss, *batch, vectorize=vectorize)
        assert same(before, generators())
        found.append(model[1].weight.grad_sample)
        model[1].weight.grad_sample = model[1].bias.grad_sample = None
    dropped = [(one == 0).all(1) for one in found]   # inputs of examples
    assert not torch.equal(*dropped) and all(20 < int(one.sum()) < 100 for one in dropped), "half of 120, seven deviations"


def test_masks_of_ghost_clipping_do_not_come_from_the_seed():
    model, (rows, labels), found = with_dropout(), examples_of(40), []
    with GhostClipping(model, 1.0) as ghost:
        for _ in range(2):
            seed_all(4)
            ghost.backward(torch.nn.functional.cross_entropy(model(rows), labels, reduction="none"))
            found.append(ghost.last_norms)
        seed_all(4)
        before = generators()
        with torch.no_grad():
            model.eval()(rows)
        assert same(before, generators()), "what is no training moves nothing"
    assert not torch.equal(*found)


class Masked(torch.utils.data.Dataset):
    """Examples that are changed by chance, as by a collator that masks tokens."""

    def __len__(self):
        return 30

    def __getitem__(self, place):
        return torch.rand(3) + random.random() + np.random.random(), place % 2


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_loader_draws_is_unseen(workers):
    found = []
    for _ in range(2):
        seed_all(6)
        before = generators()
        for rows, _ in poisson_loader(Masked(), 1.0, steps=2, num_workers=workers):
            assert same(before, generators())
            found.append(rows)
        assert same(before, generators())
    assert all(not torch.equal(one, other) for place, one in enumerate(found) for other in found[:place])


def test_a_step_forgets_what_the_loop_has_drawn():
    """Of any kind, and as often as there were examples: a host that saves afterwards saves nothing of it."""
    states = []
    for count in (8, 3):
        model = with_dropout()
        optimizer = optimizer_of(model, model=model)
        seed_all(2)
        rows, labels = examples_of(count)
        for _ in range(count):
            drawn()
        per_example_gradients(model, loss, rows + 0.1 * torch.randn_like(rows), labels)
        optimizer.step()
        states.append(generators())
        drawn()
        with pytest.raises(ValueError, match="got none"):   # refused
            optimizer.step()
        states.append(generators())
    assert same(states[0], states[2]) and same(states[1], states[3]) and not same(states[0], states[1])
