"""Embed SciFact for studies/hushvec_studies/search_by_mechanism/measure.py: MiniLM, offline.

    pip install 'hushvec[text]'
    python -m hushvec_studies.embeddings.scifact scifact_corpus.jsonl.xz scifact_claims.jsonl.xz folder

Reads abstracts (id, title, text) and claims (split, claim, relevant: ids of abstracts), one JSON object per line. Writes
documents.npy and claims.npy (float32 [n, 384], unit rows, in file order), ids.npy, and claims.json with the split and the relevant
ids of each claim into the folder. A few minutes on one core.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np

from hushvec_studies.embeddings.posts import BATCH, model_folder, save
from hushvec_studies.harness.json_lines import objects_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("claims", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    from sentence_transformers import SentenceTransformer

    corpus, claims = objects_of(arguments.corpus), objects_of(arguments.claims)
    model = SentenceTransformer(str(model_folder()))
    texts = {
        "claims": [claim["claim"] for claim in claims],
        "documents": [f"{document['title']}. {document['text']}" for document in corpus],
    }
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, given in texts.items():
        rows = model.encode(given, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=True)
        save(arguments.folder, name, np.asarray(rows, np.float32))
    save(arguments.folder, "ids", np.array([document["id"] for document in corpus]))
    wanted = [{"split": claim["split"], "relevant": claim["relevant"]} for claim in claims]
    (arguments.folder / "claims.json").write_text(json.dumps(wanted))


if __name__ == "__main__":
    main()
