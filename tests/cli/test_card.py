"""`hushvec card`: what a registry's entry takes from receipts, what it leaves to a person, and what it refuses."""

import hashlib
import json

import numpy as np
import pytest
import yaml

import hushvec as hv
from cli.command import hushvec_here
from hushvec.accounting import compose
from hushvec.aggregates import class_centroids

ROWS = np.random.default_rng(1).standard_normal((50, 8)).astype(np.float32)
# Of the schema of opendp/deployments-registry-data, November 2026: the sections, and the fields of enumerations that are used here.
SECTIONS = ["basic", "dp_variant", "privacy_loss", "deployment_model", "accounting", "implementation", "administrative"]
TYPES = ("Summary statistics", "Machine learning model", "Dataset")


@pytest.fixture
def written(tmp_path):
    def write(receipt, name="one.receipt.json"):
        path = tmp_path / name
        path.write_text(receipt.to_json() + "\n")
        return path
    return write


def entry(*words):
    done = hushvec_here("card", *map(str, words))
    assert done.code == 0, done.err
    return yaml.safe_load(done.out)


def test_the_entry_of_one_release(written, tmp_path):
    receipt = hv.privatize(ROWS, epsilon=8.0, mechanism="privunit").receipt
    path = written(receipt)
    found = entry(path)
    deployment = found["deployment"]
    assert list(deployment) == SECTIONS and (found["status"], found["tier"]) == ("Draft", 3)
    assert deployment["dp_variant"]["variant_name"] == "Pure DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 8.0}
    assert deployment["deployment_model"]["release_type"] == "One release" and deployment["basic"]["data_product_type"] == TYPES[2]
    assert "privunit" in deployment["implementation"]["mechanisms"] and "exact" in deployment["implementation"]["mechanisms"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() in deployment["administrative"]["notes"]
    output = tmp_path / "deployment.yaml"
    done = hushvec_here("card", str(path), "-o", str(output))
    assert yaml.safe_load(output.read_text()) == found
    text = output.read_text()
    assert f"{text.count('FILL IN')} fields to fill in, {text.count('CHECK')} to check" in done.out
    assert json.loads(hushvec_here("card", str(path), "--json").out) == found


def test_releases_about_the_same_people_are_composed(written):
    receipts = [hv.privatize(ROWS, epsilon=epsilon).receipt for epsilon in (1.0, 2.0)]
    found = entry(*(written(receipt, f"{number}.json") for number, receipt in enumerate(receipts)))["deployment"]
    total = compose(receipts, delta=2e-5)
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": total.epsilon, "delta": 2e-5}
    assert max(one.epsilon for one in receipts) < total.epsilon <= sum(one.epsilon for one in receipts)
    assert found["dp_variant"]["variant_name"] == "Approximate DP" and "2 releases" in found["accounting"]["composition"]
    assert found["deployment_model"]["release_type"] == "Many releases"


def test_an_aggregate_is_central(written):
    receipt = class_centroids(ROWS, np.arange(50) % 2, labels=2, epsilon=1.0, delta=1e-5).receipt
    found = entry(written(receipt))["deployment"]
    assert found["deployment_model"]["model_name"] == "Central" and found["basic"]["data_product_type"] == TYPES[0]
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": receipt.epsilon, "delta": receipt.delta}


SEEDED = {"is_dp_claim": False, "key_source": "seed"}


@pytest.mark.parametrize("forged, said", [({"epsilon": 1.0}, "does not hold"), (SEEDED, "not a DP claim")])
def test_a_receipt_without_a_guarantee_has_no_entry(tmp_path, forged, said):
    generator = hv.Generator.unsafe_seeded(1) if "key_source" in forged else None
    receipt = hv.privatize(ROWS, epsilon=8.0, mechanism="privunit", generator=generator).receipt
    path, output = tmp_path / "forged.json", tmp_path / "deployment.yaml"
    path.write_text(json.dumps({**receipt.to_dict(), **forged}))
    done = hushvec_here("card", str(path), "-o", str(output))
    assert done.code == 2 and said in done.err and not output.exists()


def test_receipts_about_two_units_have_no_common_entry(written):
    one = written(hv.privatize(ROWS, epsilon=8.0).receipt, "rows.json")
    other = written(hv.privatize(ROWS, epsilon=8.0, per="release").receipt, "release.json")
    done = hushvec_here("card", str(one), str(other))
    assert done.code == 2 and "about one unit" in done.err
