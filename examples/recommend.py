"""Which mechanism keeps the most at a given epsilon, and its cost in every currency, before anything is spent."""

from hushvec.mechanisms.recommend import recommend

QUESTIONS = {
    "find rows by their direction": {"epsilon": 16.0},
    "the same, with a pure guarantee": {"epsilon": 16.0, "delta": 0.0},
    "rows whose length matters": {"epsilon": 16.0, "task": "release", "unit_rows": False},
    "the mean of 10,000 people": {"epsilon": 4.0, "task": "mean", "n": 10_000},
    "one of 20 labels from each of 5,000 people": {"epsilon": 2.0, "task": "labels", "labels": 20, "n": 5000},
    "the 5 best documents": {"epsilon": 2.0, "task": "top_k", "k": 5},
}

for question, price in QUESTIONS.items():
    recommendation = recommend(384, **price)
    print(f"# {question}\n{recommendation}\n")
    print(*(f"    {line}" for line in recommendation.mechanism.describe()), "", sep="\n")
