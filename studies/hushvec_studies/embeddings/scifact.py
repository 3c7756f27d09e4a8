"""Embed SciFact for studies/hushvec_studies/search_by_mechanism/measure.py: MiniLM, offline.

    pip install 'hushvec[text]'
    python -m hushvec_studies.embeddings.scifact scifact_corpus.jsonl.xz scifact_claims.jsonl.xz folder

Reads abstracts (id, title, text) and claims (split, claim, relevant: ids of abstracts), one JSON object per line. Writes
documents.npy and claims.npy (float32 [n, 384], unit rows, in file order), ids.npy, and claims.json with the split and the relevant
ids of each claim into the folder. A few minutes on one core.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from hushvec_studies.embeddings.posts import embedded, save
from hushvec_studies.harness.texts import objects_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("claims", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    corpus, claims = objects_of(arguments.corpus), objects_of(arguments.claims)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    save(arguments.folder, "claims", embedded([claim["claim"] for claim in claims]))
    save(arguments.folder, "documents", embedded([f"{document['title']}. {document['text']}" for document in corpus]))
    save(arguments.folder, "ids", np.array([document["id"] for document in corpus]))
    wanted = [{"split": claim["split"], "relevant": claim["relevant"]} for claim in claims]
    (arguments.folder / "claims.json").write_text(json.dumps(wanted))


if __name__ == "__main__":
    main()
