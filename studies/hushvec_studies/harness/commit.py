"""The git commit that a folder's repository is at, read from its files."""

from __future__ import annotations

from pathlib import Path


def commit_of(folder: Path) -> str | None:
    """The commit that HEAD names, or None outside a repository or before its first commit.

    Changes that are not committed do not show.
    """
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            return _head(place / ".git")
    return None


def _head(marker: Path) -> str | None:
    """HEAD of a repository, whose folder the marker is or, in a linked work tree, names."""
    try:
        own = marker if marker.is_dir() else (marker.parent / marker.read_text().removeprefix("gitdir:").strip())
        head = (own / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head or None
        name = head.removeprefix("ref:").strip()
        common = own / (own / "commondir").read_text().strip() if (own / "commondir").is_file() else own
        for folder in (own, common):
            if (folder / name).is_file():
                return (folder / name).read_text().strip() or None
        packed = (common / "packed-refs").read_text().splitlines() if (common / "packed-refs").is_file() else []
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)
    except (OSError, UnicodeDecodeError):
        return None
