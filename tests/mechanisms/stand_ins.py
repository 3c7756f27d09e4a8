"""Small mechanisms with the figures that a picker reads, for tests that need to know every number."""

from hushvec.mechanisms.privunit import top_1_probability


class StandIn:
    """Whatever a test says about a mechanism, under the names that `recommend` reads."""

    name = "privunit"
    grade = "exact"
    takes_delta = takes_sigma = False
    directions_only = True
    cosine = 0.2
    norm = 4.0

    cap_probability = 0.9
    threshold = 3.0

    def __init__(self, *, epsilon, dimension, clip_norm=1.0, rows_per_person=1, corpus_size=None):
        self.cost = (epsilon, 0.0)
        self.arguments = (epsilon, dimension, clip_norm, rows_per_person)
        self.corpus_size = corpus_size

    @classmethod
    def for_price(cls, *, delta, **arguments):
        return cls(**arguments)

    def expected_cosine(self):
        return self.cosine

    def top_1_probability(self, others):
        return top_1_probability(self.cap_probability, self.threshold, others)

    @property
    def noise_norm(self):
        return self.norm
