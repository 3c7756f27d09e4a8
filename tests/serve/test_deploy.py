"""The files of deploy/ hold together: the policy is one, every panel's metric exists, manifests name what the image has."""

import json
import re
from pathlib import Path

import yaml

from hushvec.cli import main
from hushvec.serve.metrics import Metrics
from hushvec.serve.policy import read_policy, require_keys_beyond_loopback
from hushvec.serve.server import DEFAULT_PORT, SECONDS_TO_FINISH

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_policy_may_listen_anywhere(capsys):
    policy = read_policy(DEPLOY / "policy" / "policy.yaml")
    require_keys_beyond_loopback(policy, "0.0.0.0")
    assert main(["serve", "--policy", str(DEPLOY / "policy" / "policy.yaml"), "--check"]) == 0
    assert "tenant first: privunit, epsilon 8 per request, 100 requests a day" in capsys.readouterr().out


def test_panels_show_metrics_that_exist():
    metrics = Metrics()
    metrics.requests.labels("/", "200", "a").inc()
    metrics.seconds.labels("/").observe(1)
    metrics.released("a", 1, 1.0)
    text = metrics.text().decode()
    panels = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]
    named = {name for panel in panels for target in panel["targets"] for name in re.findall(r"hushvec_\w+", target["expr"])}
    assert len(named) == 5
    for name in named:
        assert re.search(rf"^{name}(\{{| )", text, re.M), name


def test_manifests_wait_for_what_was_charged():
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "hushvec.yaml").read_text()))
    pod = documents[0]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > SECONDS_TO_FINISH
    assert pod["containers"][0]["ports"][0]["containerPort"] == DEFAULT_PORT
    assert pod["volumes"][0]["secret"]["secretName"] == "hushvec-policy"
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["hushvec"]
    assert int(composed["stop_grace_period"].removesuffix("s")) > SECONDS_TO_FINISH
    image = (DEPLOY / "Containerfile").read_text()
    assert f"EXPOSE {DEFAULT_PORT}" in image and "/etc/hushvec/policy.yaml" in image
    assert composed["volumes"] == ["./policy:/etc/hushvec:ro"], "the folder: see `server.is_mount`"
    mount = pod["containers"][0]["volumeMounts"][0]
    assert mount["mountPath"] == "/etc/hushvec" and "subPath" not in mount
