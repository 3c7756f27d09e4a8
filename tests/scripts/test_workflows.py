"""The workflows of CI: they can be read, they pin what they use, they may do little, and what they run is here."""

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install --group docs")

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def test_each_action_is_one_commit_everywhere_and_a_comment_names_its_version():
    versions = {}
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        for action, version in re.findall(r"uses: ([\w.-]+/[^@\s]+)@?(.*)", path.read_text()):
            assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", version), f"{path.name}: {action}@{version}"
            versions.setdefault(action, set()).add(version)
    assert len(versions) > 5 and {action: found for action, found in versions.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_what_a_workflow_runs_exists(name):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = "\n".join(step["run"] for step in steps(WORKFLOWS[name]) if "run" in step)
    assert set(re.findall(r"\bmake ([a-z]+)", commands)) <= targets
    assert [script for script in re.findall(r"\bscripts/[\w/.]+", commands) if not (ROOT / script).is_file()] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_job_may_read_and_no_more_but_for_those_that_publish(name):
    assert WORKFLOWS[name]["permissions"] == {}
    jobs = WORKFLOWS[name]["jobs"]
    assert {job for job, settings in jobs.items() if "write" in settings["permissions"].values()} <= {"publish", "scorecard"}


def test_no_checkout_leaves_its_password_in_the_folder():
    checkouts = [step for workflow in WORKFLOWS.values() for step in steps(workflow) if "actions/checkout@" in step.get("uses", "")]
    assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_wheels_are_built_on_every_system_that_cibuildwheel_has_settings_for():
    runners = WORKFLOWS["wheels.yml"]["jobs"]["cpu"]["strategy"]["matrix"]["runner"]
    assert {runner.split("-")[0].replace("ubuntu", "linux") for runner in runners} == {"linux", "macos", "windows"}
    assert {runner for runner in runners if runner.endswith(("-arm", "-intel"))} == {"ubuntu-24.04-arm", "macos-15-intel"}


def test_the_site_that_is_published_is_the_one_that_make_docs_builds():
    build = WORKFLOWS["site.yml"]["jobs"]["build"]["steps"]
    assert {"run": "make docs"} in build
    (upload,) = (step for step in build if step.get("uses", "").startswith("actions/upload-pages-artifact@"))
    assert upload["with"]["path"] == yaml.safe_load((ROOT / "mkdocs.yml").read_text().partition("\ntheme:")[0])["site_dir"]
