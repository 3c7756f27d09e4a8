"""What redaction finds and what it flags for nothing: example sentences, posts, court judgments, synthetic sentences, speed.

    python -m hushvec_studies.redaction.coverage DATA -o studies/hushvec_studies/redaction/results/coverage.json

Other entries of the file stay: with `--as before` the figures of another version are kept beside those of this one.

Files of the folder: 20newsgroups_8.jsonl.xz (posts, not labeled: finds are counted by category), tab_113.jsonl.xz (judgments with
annotated identifiers), pii_synth.json (sentences with known spans). The last two are also read by Presidio and, with `--spacy FOLDER`,
by a model of spaCy, each alone and together with the rules.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hushvec.text import Redactor
from hushvec.text.pii.spans import Detector
from hushvec_studies.harness.outputs import write_json
from hushvec_studies.harness.tables import markdown_table
from hushvec_studies.harness.texts import objects_of
from hushvec_studies.redaction import recall, tab
from hushvec_studies.redaction.examples import EXAMPLES, PHONES, Example
from hushvec_studies.redaction.tab import Detect

POSTS = "20newsgroups_8.jsonl.xz"
JUDGMENTS = "tab_113.jsonl.xz"
SENTENCES = "pii_synth.json"
HELD_OUT, TEMPLATES_HELD_OUT = "rules, judgments held out", "rules, templates held out"
SPEED_CHARACTERS = 1_000_000


def is_hidden(redactor: Redactor, example: Example) -> bool:
    """Whether every letter and digit of the secret is redacted."""
    first = example.sentence.index(example.secret)
    covered = {place for span in redactor.detect(example.sentence) for place in range(span.start, span.end)}
    return all(first + at in covered for at, character in enumerate(example.secret) if character.isalnum())


def examples_found(redactor: Redactor, examples: Iterable[Example]) -> dict[str, Any]:
    """How many are hidden, and which are not."""
    listed = list(examples)
    missed = [example.sentence for example in listed if not is_hidden(redactor, example)]
    return {"examples": len(listed), "found": len(listed) - len(missed), "missed": missed}


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


def speed(redactor: Redactor, posts: list[str]) -> dict[str, float]:
    """Megabytes per second of one core, the best of three, on posts one by one: as they are, and with a non-ASCII character each."""
    chosen, total = [], 0
    for text in posts:
        chosen.append(text)
        total += len(text)
        if total >= SPEED_CHARACTERS:
            break
    found = {}
    for name, texts in (("ascii", chosen), ("unicode", [text + " é\u0301" for text in chosen])):
        seconds = []
        for _ in range(3):
            start = time.process_time()
            redactor.redact_all(texts)
            seconds.append(time.process_time() - start)
        found[name] = round(total / 1e6 / min(seconds), 2)
    return found


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
        "examples": examples_found(redactor, EXAMPLES),
        "phones": examples_found(redactor, PHONES),
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
        "megabytes_per_second": speed(redactor, posts),
    }


def detectors_here(spacy_folder: str | None) -> dict[str, Detector]:
    """Presidio's patterns, and a model of spaCy in Presidio if a folder is given."""
    from hushvec.integrations.presidio import PresidioDetector

    found: dict[str, Detector] = {"presidio": PresidioDetector()}
    if spacy_folder is not None:
        from hushvec.integrations.spacy import SpacyDetector

        found["spacy"] = SpacyDetector(spacy_folder)
    return found


def found_table(results: Mapping[str, Any]) -> str:
    """What the versions in the file find of the examples, and how much they flag in posts, as a table."""
    names = list(results)
    rows = [
        ("examples of the 33 rules", [f"{one['examples']['found']} of {one['examples']['examples']}" for one in results.values()]),
        ("phone numbers with 555", [f"{one['phones']['found']} of {one['phones']['examples']}" for one in results.values()]),
        ("finds in 1000 posts", [f"{1000 * one['posts']['finds'] / one['posts']['posts']:.0f}" for one in results.values()]),
    ]
    categories = sorted({category for one in results.values() for category in one["posts"]["finds_for_1000_posts"]})
    for category in categories:
        finds = [one["posts"]["finds_for_1000_posts"].get(category, 0.0) for one in results.values()]
        rows.append((f"of them: {category}", [f"{count:.1f}" for count in finds]))
    return markdown_table(["", *names], [[label, *cells] for label, cells in rows])


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
    print(found_table(kept), ladder_table(kept[options.name]), json.dumps(kept[options.name]["megabytes_per_second"]), sep="\n\n")


if __name__ == "__main__":
    main()
