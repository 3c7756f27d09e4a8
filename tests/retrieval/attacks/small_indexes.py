"""Small indexes to attack: exact search in numpy, noise of the package on documents or scores, and mutants of both."""

import numpy as np

import hushvec as hv


class Answer:
    def __init__(self, ids, scores):
        self.ids, self.scores = ids, scores


class Plain:
    """Unit rows, all inner products, the best k. No noise, no promise."""

    def __init__(self, generator):
        self.generator = generator
        self.receipts = ()

    def add(self, vectors, ids):
        self.rows = self.released(unit(vectors))
        self.ids = np.asarray(ids)

    def search(self, queries, k):
        scores = self.noisy(np.clip(unit(queries) @ self.rows.T, -1e3, 1e3))
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        best = np.take_along_axis(best, order, axis=1)
        return Answer(self.ids[best], np.take_along_axis(scores, best, axis=1))

    def vectors(self):
        return self.rows

    def released(self, rows):
        return rows

    def noisy(self, scores):
        return scores


class OnDocuments(Plain):
    """Rows released by `hushvec.privatize`; the claim is the receipt's."""

    def __init__(self, generator, **release):
        super().__init__(generator)
        self.release = release

    def released(self, rows):
        values, receipt = hv.privatize(rows, generator=self.generator, **self.release)
        self.receipts = (receipt,)
        return values

    def document_guarantee(self, queries=1):
        return self.receipts[0].epsilon, self.receipts[0].delta


class TooLittleNoise(OnDocuments):
    """The claim of one release, a share of its noise."""

    def __init__(self, generator, share, **release):
        super().__init__(generator, **release)
        self.share = share

    def released(self, rows):
        return rows + (super().released(rows) - rows) * np.float32(self.share)


class OnScores(Plain):
    """Laplace or Gaussian noise for every score of every query, at `epsilon` a query; `share` below 1 is a mutant."""

    def __init__(self, generator, epsilon, mechanism="laplacian", share=1.0, delta=1e-5):
        super().__init__(generator)
        self.epsilon, self.mechanism, self.share, self.delta = epsilon, mechanism, share, delta

    def noise(self, shape):
        if self.mechanism == "laplacian":
            return hv.laplacian_noise(shape, scale=self.share * 2 / self.epsilon, generator=self.generator)
        return hv.gaussian_noise(shape, self.share * self.sigma, generator=self.generator)

    @property
    def sigma(self):
        return hv.gaussian_sigma(self.epsilon, self.delta, 2.0)

    def noisy(self, scores):
        return np.clip(scores, -1, 1) + self.noise(scores.shape)

    def document_guarantee(self, queries=1):
        if self.mechanism == "laplacian":
            return queries * self.epsilon, 0.0
        return hv.gaussian_epsilon(self.delta, self.sigma, 2.0 * np.sqrt(queries)), self.delta


class OneNoiseForAllQueries(OnScores):
    """A document's noise is drawn once, and comes back in every answer."""

    kept = None

    def noise(self, shape):
        if self.kept is None:
            self.kept = super().noise(shape[1])
        return self.kept


class SameStreamForEverySearch(OnScores):
    """Each call of search starts the key stream anew."""

    def noise(self, shape):
        self.generator = hv.Generator.unsafe_seeded(7)
        return super().noise(shape)


class OnQueries(Plain):
    """Noise on queries, which documents get nothing from."""

    def search(self, queries, k):
        noisy = hv.privatize(unit(queries), epsilon=5.0, mechanism="privunit", generator=self.generator).values
        return super().search(noisy, k)

    def document_guarantee(self, queries=1):
        return None


def unit(rows):
    rows = np.asarray(rows, np.float32)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def directions(rows, dimension, seed=1):
    return unit(np.random.default_rng(seed).standard_normal((rows, dimension)))


def signs(rows):
    """Vectors of one element, half of them 1 and half -1: as far apart as vectors can be."""
    return np.where(np.arange(rows) % 2, 1.0, -1.0).astype(np.float32)[:, None]


def near(documents, queries, cosine, seed=2):
    """[n, q, d]: unit queries at this cosine from their documents, as key phrases are."""
    noise = np.random.default_rng(seed).standard_normal((len(documents), queries, documents.shape[1]))
    noise -= np.einsum("nqd,nd->nq", noise, documents)[:, :, None] * documents[:, None, :]
    noise /= np.linalg.norm(noise, axis=-1, keepdims=True)
    return (cosine * documents[:, None, :] + np.sqrt(1 - cosine**2) * noise).astype(np.float32)
