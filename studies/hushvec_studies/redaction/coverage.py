"""What redaction finds and what it flags for nothing: posts, court judgments, synthetic sentences.

    python -m hushvec_studies.redaction.coverage DATA -o studies/hushvec_studies/redaction/results/coverage.json

Other entries of the file stay: with `--as before` the figures of another version are kept beside those of this one.

Files of the folder: 20newsgroups_8.jsonl.xz (posts, not labeled: finds are counted by category), tab_113.jsonl.xz (judgments with
annotated identifiers), pii_synth.json (sentences with known spans). The last two are also read by Presidio and, with `--spacy FOLDER`,
by a model of spaCy, each alone and together with the rules.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushvec.text import Redactor
from hushvec.text.pii.spans import Detector
from hushvec_studies.harness.outputs import write_json
from hushvec_studies.harness.tables import markdown_table
from hushvec_studies.harness.texts import objects_of
from hushvec_studies.redaction import recall, tab
from hushvec_studies.redaction.tab import Detect

POSTS = "20newsgroups_8.jsonl.xz"
JUDGMENTS = "tab_113.jsonl.xz"
SENTENCES = "pii_synth.json"
HELD_OUT, TEMPLATES_HELD_OUT = "rules, judgments held out", "rules, templates held out"


def finds_in_posts(redactor: Redactor, posts: list[str]) -> dict[str, Any]:
    """Finds for 1000 posts, by category."""
    counts: Counter[str] = Counter()
    for text in posts:
        counts.update(span.category for span in redactor.detect(text))
    return {
        "posts": len(posts),
        "finds": counts.total(),
        "finds_for_1000_posts": {name: round(1000 * count / len(posts), 1) for name, count in sorted(counts.items())},
    }


def rungs(detectors: Mapping[str, Detector]) -> dict[str, Detect]:
    """The rules, each detector alone, and the rules with the first detector, the first two, and so on."""
    ladder: dict[str, Detect] = {"rules": recall.detect_with(Redactor())}
    chosen: list[Detector] = []
    name = "rules"
    for label, detector in detectors.items():
        ladder[label] = recall.detect_with(detector)
        chosen.append(detector)
        name = f"{name} + {label}"
        ladder[name] = recall.detect_with(Redactor(detectors=list(chosen)))
    return ladder


def measured(folder: Path, detectors: Mapping[str, Detector]) -> dict[str, Any]:
    """All figures of this version."""
    redactor = Redactor()
    posts = [post["text"] for post in objects_of(folder / POSTS)]
    judgments = objects_of(folder / JUDGMENTS)
    records = json.loads((folder / SENTENCES).read_text(encoding="utf-8"))
    ladder = rungs(detectors)
    return {
        "posts": finds_in_posts(redactor, posts),
        "judgments": {
            "rules": tab.rates(judgments, ladder["rules"]),
            HELD_OUT: tab.rates(filter(tab.is_held_out, judgments), ladder["rules"]),
            **{name: tab.rates(judgments, detect) for name, detect in ladder.items() if name != "rules"},
        },
        "sentences": {
            **{name: recall.summary(recall.counts(records, detect)) for name, detect in ladder.items()},
            TEMPLATES_HELD_OUT: recall.summary(recall.counts(filter(recall.is_held_out, records), ladder["rules"])),
        },
    }


def detectors_here(spacy_folder: str | None) -> dict[str, Detector]:
    """Presidio's patterns, and a model of spaCy in Presidio if a folder is given."""
    from hushvec.integrations.presidio import PresidioDetector

    found: dict[str, Detector] = {"presidio": PresidioDetector()}
    if spacy_folder is not None:
        from hushvec.integrations.spacy import SpacyDetector

        found["spacy"] = SpacyDetector(spacy_folder)
    return found


def ladder_table(result: Mapping[str, Any]) -> str:
    """What each rung of the ladder finds, as a table of docs/redaction.md."""
    header = ["", "TAB: direct", "quasi", "precision", "PERSON", "precision", "ORGANIZATION", "precision", "GPE", "precision"]
    rows = []
    for name, judged in result["judgments"].items():
        sentences = result["sentences"].get(name, {})
        cells = [judged["recall"]["DIRECT"], judged["recall"]["QUASI"], judged["precision_of_words"]]
        cells += [sentences.get(kind, {}).get(rate) for kind in ("PERSON", "ORGANIZATION", "GPE") for rate in ("recall", "precision")]
        rows.append([name, *("-" if cell is None else f"{cell:.3f}" for cell in cells)])
    return markdown_table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--as", dest="name", default="after", help="entry of the file that these figures become (default after)")
    parser.add_argument("--spacy", metavar="FOLDER", help="a model of spaCy")
    options = parser.parse_args()
    kept = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    kept[options.name] = measured(options.folder, detectors_here(options.spacy))
    write_json(options.output, kept)
    print(ladder_table(kept[options.name]))


if __name__ == "__main__":
    main()
