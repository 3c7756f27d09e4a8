"""`hushvec topics`: what people write about, and what grew, as votes for topics of public texts; one page."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from hushvec._util.publish import SHARED, published_text, receipt_path
from hushvec.aggregates import PrivateTopics, PublicTopics, private_topics
from hushvec.cli._output import answered, titled
from hushvec.cli._parser import option
from hushvec.cli._style import printable
from hushvec.cli._texts import stripped_lines
from hushvec.cli._topics_page import page
from hushvec.cli.aggregate import OfRows
from hushvec.cli.vectors import open_source, rows_and_fields
from hushvec.cli.vectors.source import Columns, FileError, naming
from hushvec.receipts import AggregateReceipt
from hushvec.text import MiniLMEmbedder

_REPEATED = ("public", "public_texts", "output", "text_key", "column", "topics", "before", "epsilon", "delta", "people_key",
             "rows_per_person", "adjacency")  # fmt: skip


class Topics(
    OfRows,
    name="topics",
    examples=(
        (
            "of notes, by public texts",
            "hushvec topics notes.jsonl --text-key text --public public.txt -o topics.html --epsilon 1",
        ),
        ("what grew since then", "hushvec topics new.npy --public pool.npy --before topics.json -o week2.html --epsilon 1"),
    ),
):
    """What people write about: each row of IN votes for the nearest topic of public texts, or for none where they have nothing like
    it, and votes are counted with noise. OUT is a page that loads nothing; its figures go beside it, into a .json file.

    PUBLIC must be public and of the kind that IN is; texts of it are on the page."""

    suffix = ".html"

    public: Path = option("public texts, .txt with one per line, or a file of their vectors", metavar="PUBLIC", required=True)
    public_texts: Path | None = option("the texts of a PUBLIC of vectors, one per line", metavar="FILE")
    topics: int | None = option("how many topics (default 1.5 sqrt(rows of PUBLIC), at most 200)", metavar="K")
    before: Path | None = option("the .json file of an earlier period with the same topics, to see what grew", metavar="EARLIER")

    def run(self) -> int:
        self.figures = self.output.with_suffix(".json")
        if self.figures.exists() and not self.force:
            raise ValueError(f"{self.figures}: must not exist: choose another OUT, or --force to replace it")
        if self.public_texts is not None and self.public.suffix == ".txt":
            raise ValueError(f"--public-texts must be left out with texts as PUBLIC, got {self.public_texts}")
        self.earlier = None
        if self.before is not None:
            with naming(self.before):
                self.earlier = PrivateTopics.from_json(self.before.read_text(encoding="utf-8"))
        return super().run()

    def made(self, rows: NDArray[Any], **terms: Any) -> PrivateTopics:
        pool = self._pool()
        if self.earlier is not None and self.earlier.pool != pool.digest:
            raise FileError(self.before or Path(), f"must be of the topics {pool.digest:.16}..., got {self.earlier.pool:.16}...")
        return private_topics(rows, pool=pool, **terms)

    def write(self, made: PrivateTopics, receipt: AggregateReceipt, file: BinaryIO) -> None:
        self.result = dataclasses.replace(made, receipt=receipt)
        self.growth = None if self.earlier is None else made.growth(self.earlier)
        with published_text(self.figures, mode=SHARED) as figures:
            figures.write(f"{self.result.to_json()}\n")
        given = [(name.replace("_", "-"), getattr(self, name)) for name in _REPEATED]
        options = [word for name, value in given if value is not None for word in (f"--{name}", str(value))]
        command = shlex.join(["hushvec", "topics", str(self.input), *options])
        file.write(page(self.result, self.growth, command, self.figures.name).encode())

    def answer(self, made: PrivateTopics, receipt: AggregateReceipt) -> int:
        where = {"output": str(self.output), "figures": str(self.figures), "receipt_file": str(receipt_path(self.output))}
        columns = zip(made.names, made.shares.tolist(), made.intervals().tolist())
        found = [{"topic": name, "share": share, "interval": ends} for name, share, ends in columns]
        changes = () if self.growth is None else zip(made.names, self.growth.difference.tolist(), self.growth.p_values.tolist())
        grown = [{"topic": name, "difference": change, "p_value": chance} for name, change, chance in changes]
        shown = [titled(str(one)) for one in (self.result, self.growth) if one is not None]
        value = {**where, "topics": found, "growth": grown, "receipt": receipt.to_dict()}
        return answered(self, value, *map(printable, where.values()), "", *shown)

    def _pool(self) -> PublicTopics:
        path = self.public if self.public.suffix == ".txt" else self.public_texts
        texts = None if path is None else stripped_lines(str(path))
        if path == self.public:
            rows: Any = MiniLMEmbedder().embed(texts or [])
        else:
            rows, _ = rows_and_fields(open_source(self.public, Columns(self.column, None, ())))
        return PublicTopics.fit(rows, texts=texts, topics="auto" if self.topics is None else self.topics)
