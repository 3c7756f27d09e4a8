"""Writes vec2text_t5.json and vec2text_gated.json: what vec2text itself makes of the tiny checkpoints of text/tiny_vec2text.py.

    python make_vec2text_vectors.py [FOLDER] [--every-row]

Needs an environment of its own (vec2text's last release does not run on transformers 5):

    pip install vec2text==0.0.13 transformers==4.44.2 torch safetensors

Nothing is downloaded and nothing of hushvec is imported. vec2text's code runs as it is, except that its metrics, which inversion does
not use, are not fetched. A checkpoint finds its embedder under the name of the real one, in a cache of the hub that is made here.

A row whose texts hang on the last bits of a float (they differ when every embedding is moved by 1e-5 of its length) would ask for one
processor's rounding: such rows are left out and counted. --every-row keeps them, to compare on one machine.

    {"made_with": {package: version}, "t5": "T5" or "GATED_T5", "rows_left_out": n, "rows": [which of tiny_vec2text.embeddings],
     "answers": [{"num_steps", "beams", "sequence_beams", "texts": [one for each row]}]}

num_steps 0 is invert_embeddings(num_steps=None); beams is gen_kwargs["num_beams"]; sequence_beams is sequence_beam_width.
"""

import argparse
import json
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from text import tiny_vec2text as tiny  # noqa: E402

ROWS = 40
SHIFT = 1e-5
EMBEDDER = "sentence-transformers/gtr-t5-base"
# num_steps, beams, sequence_beams
SETTINGS = {
    "t5": [
        (0, 1, 0), (0, 4, 0), (1, 1, 0), (1, 4, 0), (5, 1, 0), (5, 4, 0),
        (1, 4, 1), (5, 4, 1), (1, 1, 4), (5, 1, 4), (5, 4, 2),
    ],
    "gated": [(0, 1, 0), (0, 4, 0), (5, 1, 0), (5, 4, 0), (5, 4, 2)],
}  # fmt: skip
T5 = {"t5": "T5", "gated": "GATED_T5"}


def hub_cache(folder, name):
    """A cache of the hub that holds one model: the folder where its files go."""
    place = folder / "hub" / f"models--{name.replace('/', '--')}"
    commit = "0" * 40
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    return place / "snapshots" / commit


def write_models(folder, t5):
    tiny.write_all(folder, t5)
    # vec2text loads these two whole before it puts the checkpoint's weights in their place.
    tiny.write_weights(folder / "t5", tiny.weights(tiny.t5_shapes("", t5), "base "))
    snapshot = hub_cache(folder / "cache", EMBEDDER)
    tiny.write_t5_folder(snapshot, tiny.EMBEDDER_T5)
    tiny.write_weights(snapshot, tiny.weights(tiny.t5_shapes("", tiny.EMBEDDER_T5), "base "))


def load(folder):
    """vec2text's own corrector, of the checkpoints in a folder."""
    import evaluate

    evaluate.load = lambda *args, **kwargs: None
    import vec2text

    inversion = vec2text.models.InversionModel.from_pretrained(folder / tiny.INVERSION)
    corrector = vec2text.models.CorrectorEncoderModel.from_pretrained(folder / tiny.CORRECTOR)
    return vec2text.load_corrector(inversion, corrector)


def check_weights(model, arrays):
    """Every array is in the model: nothing was left at another value."""
    state = model.state_dict()
    for name, array in arrays.items():
        assert np.array_equal(state[name].numpy(), array), name


def invert(corrector, rows, num_steps, beams, sequence_beams):
    import torch
    import vec2text

    print(f"steps {num_steps}, beams {beams}, sequence beams {sequence_beams}", file=sys.stderr, flush=True)
    corrector.gen_kwargs["num_beams"] = beams
    with torch.no_grad():
        return vec2text.invert_embeddings(torch.from_numpy(rows.copy()), corrector, num_steps or None, sequence_beams)


def steady(rows, answers, again):
    """Which rows have the same texts in every setting however they are moved."""
    return [row for row in range(len(rows)) if all(old[row] == new[row] for old, new in zip(answers, again))]


def vectors(name, folder, every_row):
    t5 = getattr(tiny, T5[name])
    write_models(folder, t5)
    corrector = load(folder)
    check_weights(corrector.inversion_trainer.model, {**tiny.with_aliases(tiny.inversion_weights(t5)), **tiny.carried_embedder()})
    check_weights(corrector.model, tiny.with_aliases(tiny.corrector_weights(t5)))
    rows = tiny.embeddings(ROWS)
    answers = [invert(corrector, rows, *setting) for setting in SETTINGS[name]]
    kept = list(range(ROWS))
    if not every_row:
        moved = rows + tiny.drawn("moved", rows.shape, SHIFT * np.linalg.norm(rows, axis=1).mean() / rows.shape[1] ** 0.5)
        kept = steady(rows, answers, [invert(corrector, moved.astype(np.float32), *setting) for setting in SETTINGS[name]])
    return {
        "made_with": {package: version(package) for package in ("vec2text", "transformers")},
        "t5": T5[name],
        "rows_left_out": ROWS - len(kept),
        "rows": kept,
        "answers": [
            {"num_steps": steps, "beams": beams, "sequence_beams": sequence_beams, "texts": [texts[row] for row in kept]}
            for (steps, beams, sequence_beams), texts in zip(SETTINGS[name], answers)
        ],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE)
    parser.add_argument("--every-row", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)   # vec2text's trainers make folders where they are
        os.environ |= {"HF_HOME": f"{scratch}/cache", "HF_HUB_OFFLINE": "1", "WANDB_DISABLED": "true"}
        for name in SETTINGS:
            # Both in one place, one after the other: the cache's place is fixed when transformers is imported.
            work = Path(scratch)
            for made in work.iterdir():
                remove(made)
            made = vectors(name, work, arguments.every_row)
            path = folder / f"vec2text_{name}.json"
            path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"{path}: {len(made['rows'])} rows, {len(made['answers'])} settings, {made['rows_left_out']} rows left out")


def remove(path):
    import shutil

    shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
