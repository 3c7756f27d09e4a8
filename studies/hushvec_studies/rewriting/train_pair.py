"""A small pair of inverter and corrector in the format of vec2text, trained on a CPU in minutes, so that its tables can be run here.

    python -m hushvec_studies.rewriting.train_pair FOLDER
    python -m hushvec_studies.rewriting.normalization --inverter FOLDER/inverter
    python -m hushvec_studies.rewriting.steps_sweep --inverter FOLDER/inverter

FOLDER/inverter            the inversion model (`hushvec study train-inverter`, trained on the first half of the texts)
FOLDER/inverter__correct   its corrector, trained on the second half: from what the inverter makes of those texts to the texts
FOLDER/held_out.jsonl      sentences that neither saw, each with the name in it
FOLDER/trained.json        settings, losses, seconds; written last

The same command goes on with a run that was stopped: with the inverter from its last checkpoint, with the corrector from its start.

Texts are short sentences of the invented records that ship with hushvec, told of other people (pair_texts.py); vectors are MiniLM's
before they are normalized. The corpus is public: nothing is private about training.
"""

import argparse
import time
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from hushvec.extend.helpers import Progress
from hushvec.text.inverters.vec2text.loading import ENDING, load_inversion
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.checkpoints import save_checkpoint
from hushvec_studies.harness.outputs import write_study
from hushvec_studies.harness.settings import Seed, add_options, checked, given
from hushvec_studies.inverters import SIZES, train_inverter
from hushvec_studies.inverters.corpus import Batches, labels_of
from hushvec_studies.inverters.loop import LARGEST_GRADIENT, WEIGHT_DECAY, rate_at
from hushvec_studies.inverters.network import with_small_tables
from hushvec_studies.inverters.settings import RATE_TIMES_WIDTH
from hushvec_studies.rewriting.pair_texts import PooledMiniLM, shipped_texts, write_documents

NAME, RUN, SAID = "inverter", "run", "trained.json"
BATCH = 64


class Settings(harness.Settings):
    """How the pair is trained."""

    variants: Annotated[int, Field(ge=2)] = Field(default=60, description="names for each template")
    held_out: Annotated[int, Field(ge=1)] = Field(default=200, description="sentences that are held out")
    epochs: Annotated[int, Field(ge=1)] = Field(default=8, description="of the inverter")
    corrector_epochs: Annotated[int, Field(ge=1)] = Field(default=15, description="of the corrector")
    size: str = Field(default="tiny", description="of both, as for train-inverter")
    seed: Seed = Field(default=0, description="of texts, weights and order")


def trained_pair(folder, settings, embedder, texts=None):
    """Train both, write everything, and return what trained.json says.

    Args:
        texts: what they are trained and judged on; None: those of `shipped_texts`.

    Raises:
        ValueError: the folder holds a finished pair, a run of other settings, or something else.
        KeyboardInterrupt: training was stopped; what the inverter has learned is kept.
    """
    folder = Path(folder)
    if (folder / SAID).exists():
        raise ValueError(f"{folder}: must not hold a pair that is finished")
    if folder.exists() and any(folder.iterdir()) and not (folder / RUN).is_dir():
        raise ValueError(f"{folder}: must be empty or not exist, so that nothing in it is overwritten")
    folder.mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    texts = shipped_texts(settings.held_out, settings.variants, settings.seed) if texts is None else texts
    write_documents(folder / "held_out.jsonl", texts.held_out)
    summary = train_inverter(
        texts.first,
        folder / RUN,
        embedder=embedder,
        size=settings.size,
        vocabulary=1024,
        max_tokens=32,
        epochs=settings.epochs,
        seed=settings.seed,
        checkpoint_every=250,
        device="cpu",
        resume=(folder / RUN).exists(),
    )
    if not summary.finished:
        raise KeyboardInterrupt
    inversion = load_inversion(folder / RUN, device="cpu")
    save_checkpoint(folder / NAME, inversion.model, inversion.tokens)
    corrector, losses = trained_corrector(inversion, texts.second, embedder, settings)
    save_checkpoint(folder / f"{NAME}{ENDING}", corrector, inversion.tokens)
    said = {
        "settings": settings.model_dump(mode="json"),
        "texts": {"inverter": len(texts.first), "corrector": len(texts.second), "held_out": len(texts.held_out)},
        "inverter": summary.to_dict() | {"folder": RUN},
        "corrector": {"parameters": sum(one.numel() for one in corrector.parameters()), "losses": losses},
        "processor_seconds": round(time.process_time() - began, 1),
    }
    write_study(folder / SAID, said)
    return said


def trained_corrector(inversion, texts, embedder, settings):
    """A corrector of the inverter's shape, and its mean training loss in every epoch."""
    import torch

    from hushvec.text.inverters.vec2text.model import Corrector

    rows = embedder.embed(texts)
    guesses = guessed(inversion, rows)
    there = embedder.embed(inversion.tokens.texts(guesses))
    scale = float(np.sqrt(np.mean(rows.astype(np.float64) ** 2)))
    targets = inversion.tokens.ids(texts, inversion.model.config.max_seq_length)
    losses = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = with_small_tables(Corrector(inversion.model.config))
        batches = Batches([len(ids) for ids in targets], BATCH, settings.seed)
        steps = settings.corrector_epochs * batches.in_epoch
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=WEIGHT_DECAY)
        highest = RATE_TIMES_WIDTH / SIZES[settings.size].width
        model.train()
        with Progress("training the corrector", steps) as progress:
            for step in range(steps):
                places = batches.at(step)
                for group in optimizer.param_groups:
                    group["lr"] = highest * rate_at(step, steps)
                goals, reached = (torch.from_numpy(one[places] / np.float32(scale)) for one in (rows, there))
                hypotheses, attended = padded([guesses[place] for place in places])
                labels = torch.from_numpy(labels_of([targets[place] for place in places]))
                loss = model(goals, reached, hypotheses, attended, labels)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
                optimizer.step()
                if step % batches.in_epoch == 0:
                    losses.append([])
                losses[-1].append(float(loss.detach()))
                progress.advance(1, f"loss {losses[-1][-1]:.3f}")
    with torch.no_grad():
        for name in ("embedding_transform_1", "embedding_transform_2", "embedding_transform_3"):
            getattr(model, name)[0].weight /= scale  # so that it reads embeddings as they are
    return model.eval(), [round(float(np.mean(one)), 4) for one in losses]


def guessed(inversion, rows):
    """Token ids that the inverter writes for each row, without padding."""
    import torch

    config, found = inversion.model.config, []
    for start in range(0, len(rows), BATCH):
        ids = inversion.model.generate(torch.from_numpy(rows[start : start + BATCH]), max_length=config.max_seq_length)
        found += [_unpadded(row, config.token("pad_token_id")) for row in ids.tolist()]
    return found


def padded(rows):
    """int64 [n, longest] and where a token counts."""
    import torch

    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return ids, torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])


def _unpadded(row, pad):
    """Without the padding behind it; T5's start token, which is the same, stays in front as the corrector gets it."""
    while len(row) > 1 and row[-1] == pad:
        row = row[:-1]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="new or empty")
    add_options(parser, Settings)
    arguments = parser.parse_args()
    try:
        said = trained_pair(arguments.folder, checked(Settings, given(arguments, Settings)), PooledMiniLM())
    except (ValueError, TypeError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        parser.exit(130, "stopped; the same command goes on\n")
    print(f"{arguments.folder}: {said['texts']}, {said['processor_seconds']} s, corrector loss {said['corrector']['losses'][-1]}")


if __name__ == "__main__":
    main()
