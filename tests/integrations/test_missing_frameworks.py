"""Without its framework, an integration of noise jobs says which extra installs it."""

import sys

import numpy as np
import pytest

import hushvec as hv
from hushvec.integrations import dask, datasets, jax, ray, spark, tables
from hushvec.jobs import NoiseJob, noise_file


@pytest.mark.parametrize(
    "module, extra, call",
    (
        ("ray.data", "ray", lambda job: ray.noise_function(job, id_column="id")),
        ("ray.data", "ray", lambda job: ray.noise_dataset(None, job, id_column="id")),
        ("pyspark.sql", "spark", lambda job: spark.noise_function(job)),
        ("pyspark.sql", "spark", lambda job: spark.noise_dataframe(None, job)),
        ("dask.array", "dask", lambda job: dask.noise_array(np.ones((1, 4)), job)),
        ("datasets", "datasets", lambda job: datasets.noise_function(job)),
        ("datasets", "datasets", lambda job: datasets.noise_dataset(None, job)),
        ("jax", "jax", lambda job: jax.clip(None, 1.0)),
        ("jax", "jax", lambda job: jax.clip_and_noise(None, 1.0, 1.0)),
        ("optax", "jax", lambda job: jax.differentially_private_aggregate(1.0, 1.0)),
        ("optax", "jax", lambda job: jax.gaussian_privatizer(stddev=1.0)),
        ("pyarrow", "tables", lambda job: tables.privatize_column(None, epsilon=1.0)),
    ),
)
def test_the_extra_is_named(monkeypatch, module, extra, call):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(hv.MissingExtraError) as refused:
        call(NoiseJob.start(dimension=4, epsilon=1.0))
    assert refused.value.extra == extra


def test_files_without_pyarrow(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "in.parquet").touch()
    with pytest.raises(hv.MissingExtraError) as refused:
        noise_file(tmp_path / "in.parquet", tmp_path / "out.parquet", NoiseJob.start(dimension=4, epsilon=1.0))
    assert refused.value.extra == "cli"
