"""The workflows of CI: they can be read, they pin what they use, and what they run is here."""

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install --group docs")

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def test_each_action_has_one_version_everywhere():
    versions = {}
    for workflow in WORKFLOWS.values():
        for step in steps(workflow):
            if "uses" in step:
                action, _, version = step["uses"].partition("@")
                assert re.fullmatch(r"(release/)?v\d+(\.\d+)*", version), step["uses"]
                versions.setdefault(action, set()).add(version)
    assert {action: found for action, found in versions.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_what_a_workflow_runs_exists(name):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = "\n".join(step["run"] for step in steps(WORKFLOWS[name]) if "run" in step)
    assert set(re.findall(r"\bmake ([a-z]+)", commands)) <= targets
    assert [script for script in re.findall(r"\bscripts/[\w/.]+", commands) if not (ROOT / script).is_file()] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_read_and_no_more_but_for_jobs_that_publish(name):
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    writing = {job for job, settings in WORKFLOWS[name]["jobs"].items() if "permissions" in settings}
    assert writing <= {"publish"}


def test_the_site_that_is_published_is_the_one_that_make_docs_builds():
    build = WORKFLOWS["site.yml"]["jobs"]["build"]["steps"]
    assert {"run": "make docs"} in build
    (upload,) = (step for step in build if step.get("uses", "").startswith("actions/upload-pages-artifact@"))
    assert upload["with"]["path"] == yaml.safe_load((ROOT / "mkdocs.yml").read_text().partition("\ntheme:")[0])["site_dir"]
