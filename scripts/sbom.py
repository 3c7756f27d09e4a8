#!/usr/bin/env python3
"""Writes the bill of materials of a release in CycloneDX 1.6: the packages in a folder with their hashes, what they require, and what
is compiled into them.

    python scripts/sbom.py dist > dist/hushvec-0.1.0.cdx.json

The same packages give the same bytes: the serial number comes from their hashes, the time from SOURCE_DATE_EPOCH.
"""

import hashlib
import os
import re
import sys
from datetime import datetime, timezone
from pathlib import Path
from uuid import UUID

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "packaging/build-constraints.txt"
COMPILED_IN = {"pybind11": "its headers are compiled into hushvec._native._core"}


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    text = JsonV1Dot6(bill_of_materials(Path(sys.argv[1]))).output_as_string(indent=2)
    if (fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise SystemExit(f"the bill of materials breaks the schema: {fault}")
    print(text)


def bill_of_materials(folder):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = [package(path) for path in sorted(folder.iterdir()) if path.suffix == ".whl" or path.name.endswith(".tar.gz")]
    if not files:
        raise SystemExit(f"{folder} must hold packages, got none")
    root = library(project["name"], project["version"], description=project["description"])
    root.licenses.add(DisjunctiveLicense(id=project["license"]))
    versions = built_with()
    compiled_in = [library(name, versions[name], description=why) for name, why in COMPILED_IN.items()]
    compiled_in += [cuda_runtime(major) for major in ("12", "13") if any(f"hushvec_cuda{major}-" in file.name for file in files)]
    tools = [library(name, version, scope=ComponentScope.EXCLUDED) for name, version in versions.items() if name not in COMPILED_IN]
    required = requirements(project["dependencies"])
    bom = Bom(components=[*files, *compiled_in, *tools, *required], serial_number=serial_number(files))
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), tz=timezone.utc)
    bom.register_dependency(root, [*compiled_in, *required])
    return bom


def library(name, version, **details):
    purl = PackageURL("pypi", None, name, version)
    return Component(type=ComponentType.LIBRARY, name=name, version=version, bom_ref=f"{name}=={version}", purl=purl, **details)


def cuda_runtime(major):
    return Component(
        type=ComponentType.LIBRARY, name="libcudart_static", version=major, bom_ref=f"libcudart_static=={major}",
        description=f"NVIDIA's CUDA runtime, linked into hushvec-cuda{major}",
    )


def requirements(texts):
    """A component for each package, with its ranges (numpy>=1.24), since whoever installs chooses the version."""
    by_name = {}
    for text in texts:
        name = re.match(r"[A-Za-z0-9._-]+", text)[0]
        by_name.setdefault(name, []).append(Property(name="hushvec:required", value=text))
    return [
        Component(type=ComponentType.LIBRARY, name=name, bom_ref=name, purl=PackageURL("pypi", None, name), properties=ranges)
        for name, ranges in by_name.items()
    ]


def package(path):
    digest = HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(path.read_bytes()).hexdigest())
    return Component(type=ComponentType.FILE, name=path.name, bom_ref=path.name, hashes=[digest])


def serial_number(files):
    text = "".join(f"{file.name} {digest.content}\n" for file in files for digest in file.hashes)
    return UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)


def built_with():
    """What packaging/build-constraints.txt pins: {name: version}."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE))


if __name__ == "__main__":
    main()
