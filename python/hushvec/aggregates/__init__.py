"""Many people's rows together: sums, means, covariances, principal components, classifiers, regressions and topics with one
guarantee for each person.

At epsilon 1 little survives of a single vector; of what many people have in common nearly all does. The holder of the rows is
trusted: one release is made, and whatever is computed from it is free. docs/aggregates.md shows what to release; its guarantees
are proved in docs/proofs/aggregates.md.
"""

from hushvec.aggregates.classifiers import CentroidClassifier, LinearClassifier, class_centroids, private_classifier
from hushvec.aggregates.histograms import PrivateHistogram, PrivateNormQuantiles, private_histogram, private_norm_quantiles
from hushvec.aggregates.moments import PrivateCovariance, PrivatePCA, private_covariance, private_pca
from hushvec.aggregates.periods import TopicPeriods
from hushvec.aggregates.regression import LinearRegressor, private_regression
from hushvec.aggregates.rows import RowsInParts
from hushvec.aggregates.snapshot import Snapshot, private_snapshot
from hushvec.aggregates.spending import Noise, Terms
from hushvec.aggregates.stand_ins import StandIns, private_stand_ins
from hushvec.aggregates.sums import PrivateMean, PrivateSums, SumsOfRows, private_mean, private_sums
from hushvec.aggregates.topics import PrivateTopics, PublicTopics, TopicGrowth, private_topics
from hushvec.aggregates.votes import PrivateVotes

__all__ = [
    "CentroidClassifier",
    "LinearClassifier",
    "LinearRegressor",
    "Noise",
    "PrivateCovariance",
    "PrivateHistogram",
    "PrivateMean",
    "PrivateNormQuantiles",
    "PrivatePCA",
    "PrivateSums",
    "PrivateTopics",
    "PrivateVotes",
    "PublicTopics",
    "RowsInParts",
    "Snapshot",
    "StandIns",
    "SumsOfRows",
    "Terms",
    "TopicGrowth",
    "TopicPeriods",
    "class_centroids",
    "private_classifier",
    "private_covariance",
    "private_histogram",
    "private_mean",
    "private_norm_quantiles",
    "private_pca",
    "private_regression",
    "private_snapshot",
    "private_stand_ins",
    "private_sums",
    "private_topics",
]
