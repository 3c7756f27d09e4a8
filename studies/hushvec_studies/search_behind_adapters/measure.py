"""How often a question finds its document behind an adapter: which side is noised, and with what.

    python -m hushvec_studies.search_behind_adapters.measure [--draws 40]

Documents: the 80 private notes that ship with hushvec. Each note has four of the 320 public sentences, written on its subject
in other words: the first two are public rows, for maps and codebooks, and the last two are questions, 160 in all. A second set
of questions is the first half of the words of each note. The right document is the note that the question belongs to; by chance
it is among the ten best of 80 in 12.5 %. Noisy documents are the same for all questions of a draw.
"""

import argparse

import numpy as np

import hushvec as hv
from hushvec.extend.helpers import SHIPPED_NOTES, SHIPPED_SENTENCES, inner_products, shipped_texts
from hushvec.mechanisms import PublicCodebook, PublicProjection
from hushvec.text import MiniLMEmbedder


def first_half(text):
    words = text.split()
    return " ".join(words[: (len(words) + 1) // 2])


def found(documents, questions, own):
    """Shares of questions whose document is the nearest, and among the ten nearest, by cosine."""
    scores = inner_products(np.ascontiguousarray(questions), np.ascontiguousarray(documents))
    scores /= np.maximum(np.linalg.norm(documents, axis=1), 1e-9)
    rank = (scores > scores[np.arange(len(own)), own][:, None]).sum(axis=1)
    return (rank < 1).mean(), (rank < 10).mean()


def middlewares(public):
    """(name, noise, whether questions are noised too)."""
    at_16 = {"epsilon": 16.0, "mechanism": "privunit"}
    yield "privunit, epsilon 16, both sides", at_16, True
    yield "privunit, epsilon 16", at_16, False
    yield "privunit, epsilon 16, components", {**at_16, "projection": PublicProjection.fit(public)}, False
    yield "codebook, epsilon 8", {"mechanism": PublicCodebook.of(public).mechanism(8.0)}, False
    yield "gaussian, epsilon 16, delta 1e-5", {"epsilon": 16.0}, False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=40)
    draws = parser.parse_args().draws
    model, notes, sentences = MiniLMEmbedder(), shipped_texts(SHIPPED_NOTES), shipped_texts(SHIPPED_SENTENCES)
    texts = [*notes, *sentences, *map(first_half, notes)]
    known = dict(zip(texts, model.embed(texts)))
    public = np.stack([known[text] for place, text in enumerate(sentences) if place % 4 < 2])
    asked = [text for place, text in enumerate(sentences) if place % 4 >= 2]
    tasks = [(asked, np.repeat(np.arange(len(notes)), 2)), (list(map(first_half, notes)), np.arange(len(notes)))]

    def embed(texts):
        return np.stack([known[text] for text in texts])

    print("| documents | other words: first | among 10 | first half: first | among 10 |\n|---|---|---|---|---|")
    clean = [f"{100 * share:.0f}" for questions, own in tasks for share in found(embed(notes), embed(questions), own)]
    print(f"| no noise | {' | '.join(clean)} |")
    for name, settings, is_both in middlewares(public):
        noised = hv.wrap_embedding_model(embed, hv.dp_embedding_middleware(**settings))
        asking = noised if is_both else noised.without_noise()
        shares = []
        for _ in range(draws):
            rows = noised.embed(notes).values
            shares.append([share for questions, own in tasks for share in found(rows, asking.embed(questions).values, own)])
        print(f"| {name} | {' | '.join(f'{100 * share:.0f}' for share in np.mean(shares, axis=0))} |", flush=True)


if __name__ == "__main__":
    main()
