"""Megabytes a second of hushvec.text.redact on ordinary text: newsgroup posts, joined and one by one.

    python -m hushvec_studies.redaction.speed DATA/20newsgroups_8.jsonl.xz

Processor time of one core, the best of three.
"""

import json
import sys
import time
from pathlib import Path

from hushvec.text import Redactor
from hushvec_studies.harness.texts import objects_of

CHARACTERS = 1_000_000


def seconds(work):
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main():
    posts, total = [], 0
    for post in objects_of(Path(sys.argv[1])):
        posts.append(post["text"])
        total += len(posts[-1])
        if total >= CHARACTERS:
            break
    redactor = Redactor()
    redactor.redact("Call John Smith on 020 7946 0958.")
    joined = "\n".join(posts)
    results = {
        "characters": total,
        "posts": len(posts),
        "one_text_mb_per_second": round(total / 1e6 / seconds(lambda: redactor.redact(joined)), 2),
        "post_by_post_mb_per_second": round(total / 1e6 / seconds(lambda: redactor.redact_all(posts)), 2),
        "spans": sum(len(one.spans) for one in redactor.redact_all(posts)),
    }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
