"""From words to reports: check, look at the memo, charge the budget, draw, write the receipt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.display import Sheet, plural, shown
from hushvec._util.rounding import product_up
from hushvec.accounting import PureDP, Shuffled
from hushvec.collect.memo import MEMO_CIPHER, Memo
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.extend import Budget, entry_of_charge, release_sheet, require_budget, require_secret_key
from hushvec.receipts import NOTE_SEED, PER, LedgerEntry, ReportReceipt, cipher_fields


def sequence_of(words: Any) -> Sequence[Any]:
    listed: Sequence[Any] = words.ravel().tolist() if isinstance(words, np.ndarray) else words
    validate.instance("words", listed, Sequence, "a str or a sequence of str", but=bytes | bytearray)
    return listed


def numbered(words: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The different words in their order, and for each word its number among them."""
    number_of = {word: number for number, word in enumerate(dict.fromkeys(words))}
    return list(number_of), np.fromiter(map(number_of.__getitem__, words), np.int64, len(words))


def require_words(name: str, words: Sequence[Any]) -> None:
    for place, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"{name} must be strings, got {validate.kind(word)} at position {place}")
        if not word.isascii() and any("\ud800" <= letter <= "\udfff" for letter in word):
            raise ValueError(f"{name} must be text that UTF-8 can hold, got {word!r:.80} at position {place}")


NOTE_PATTERN = "memoised: when a person reports, and which reports are of the same word, is treated as public"
NOTE_NEW = "memoised: epsilon is of the words that were new to the memo; those reported before cost nothing more"
NOTE_THESE = (
    "no permanent response: epsilon is of these reports alone, and every further report of the same person costs as much again, of "
    "the same word too"
)
NOTE_COUNT = "how many words a person reports is treated as public"


@shown
class ReportRelease(NamedTuple):
    """Result of `release` of a vocabulary or a Bloom filter.

    Args:
        reports: what goes to the collector.
        receipt: what was done and what it promises.
    """

    reports: Any
    receipt: ReportReceipt

    def _sheet(self) -> Sheet:
        return release_sheet(plural(self.receipt.reports, "report"), self.receipt)


class Collection(ABC):
    """Base of vocabularies and Bloom filters: a collector publishes one, and people report to it.

    Attributes:
        epsilon: of all of a person's words together.
        words_per_person: how many different words a person may report.
        digest: SHA-256 of everything that decides what a report means; 64 hexadecimal digits.
    """

    epsilon: float
    words_per_person: int
    digest: str

    @property
    def word_epsilon(self) -> float:
        """Epsilon of one word, however often its memoized report is repeated: that of one report, where all of it is kept."""
        return self.report_epsilon

    @property
    @abstractmethod
    def report_epsilon(self) -> float:
        """Epsilon of one report that is not memoized."""

    def _require_memo_allowed(self) -> None:  # noqa: B027
        """ValueError where reports have no part that a memo could keep."""

    def _known(self, words: Sequence[str]) -> list[str]:
        """Words as they will be reported."""
        listed = list(words)
        require_words("words", listed)
        return listed

    @abstractmethod
    def _drawn(self, words: list[str], generator: _core.Generator) -> Any:
        """One report a word, all from the generator."""

    @abstractmethod
    def _drawn_from_memo(self, words: list[str], memo: Memo, generator: _core.Generator | None) -> Any:
        """One report a word, its permanent part from the memo."""

    @property
    @abstractmethod
    def _receipt_law(self) -> dict[str, Any]:
        """The fields of a receipt that say by which law reports were drawn."""

    def shuffled(self, n: int) -> Shuffled:
        """Cost of one person's reports against anyone who sees only the shuffled reports of n people.

        Args:
            n: >= 1, how many people report to this collection in the batch. Only those count who follow the protocol.

        Guarantees:
            For one batch, to which every person sends equally many reports: under replacement of all words of one person, by
            `epsilon` and n, as `Shuffled` says; docs/proofs/shuffling.md. It takes an honest shuffler that puts all reports in
            random order and removes names, times and whatever else tells people apart. Before the shuffler only `epsilon` holds.

        Edge cases:
            Batches of fresh reports add up: ``compose([(vocabulary.shuffled(n), batches)], delta=...)``. Memoized reports are the
            same in every batch and link batches: this covers one batch of them, and several cost `epsilon`.

        Example:
            >>> from hushvec.collect import Vocabulary
            >>> loss = Vocabulary(["yes", "no"], epsilon=4.0).shuffled(100_000)
            >>> round(loss.epsilon(1e-6), 3)
            0.118
        """
        return Shuffled(epsilon=self.epsilon, n=n)

    def report(
        self, words: str | Sequence[str], *, per: str = "record", memo: Memo | None = None, budget: Budget | None = None,
        generator: _core.Generator | None = None,
    ) -> Any:
        """Reports of words, ready to be sent: `release` without the receipt."""
        return self.release(words, per=per, memo=memo, budget=budget, generator=generator).reports

    def release(
        self, words: str | Sequence[str], *, per: str = "record", memo: Memo | None = None, budget: Budget | None = None,
        generator: _core.Generator | None = None,
    ) -> ReportRelease:
        """Reports of words, and a receipt that says what they promise.

        Args:
            words: one word or several; each gives one report.
            per: "record": every word is another person's (a simulation, a proxy). "release": all are one person's, at most
                words_per_person of them.
            memo: of the person, for per="release": the same word always gives the same permanent report, and the memo admits at most
                words_per_person different words in all. Without it every call is a fresh release, which the caller adds up.
            budget: a PrivacyBudget of the person, or an object with its `consume`: charged before anything is drawn, with a memo
                for new words only.
            generator: key stream; the process-wide one if None. A seeded one gives no privacy, and no budget or memo takes it.

        Raises:
            ValueError: a word that cannot be reported (its place is named); more than words_per_person words of one person in a call.
            PrivacyBudgetExhaustedError: the memo or the budget has not enough left. Nothing was charged, noted or drawn.

        Guarantees:
            (epsilon, 0)-DP under replacement of one report's word (per="record") or of all words of the person (per="release"),
            exact as sampled. How many words there are is public; with a memo also which reports are of the same word. An error
            about a word is visible to anyone who sees that the call failed.
        """
        known = self._known([words] if isinstance(words, str) else sequence_of(words))
        validate.choice("per", per, PER)
        source = require_generator(generator)
        if budget is not None:
            require_budget(budget)
            require_secret_key(source)
        if memo is not None:
            self._require_memo_allowed()
            validate.instance("memo", memo, Memo, "a hushvec.collect.Memo or None")
            return self._release_from_memo(known, memo, per, budget, generator)
        if per == "release" and len(known) > self.words_per_person:
            raise ValueError(f"words must be at most {self.words_per_person}, words_per_person, of one person, got {len(known)}")
        words_of_one = max(1, len(known)) if per == "release" else 1
        epsilon = product_up(words_of_one, self.report_epsilon)  # of as many fresh reports of one person
        receipt = self._receipt(reports=len(known), per=per, words_of_one=words_of_one, memoised=False, epsilon=epsilon, source=source)
        if budget is not None and known:
            receipt = replace(receipt, charge=self._charge(budget, receipt.epsilon, len(known)))
        return ReportRelease(self._drawn(known, source), receipt)

    def _release_from_memo(
        self, words: list[str], memo: Memo, per: str, budget: Budget | None, generator: _core.Generator | None
    ) -> ReportRelease:
        if per != "release":
            raise ValueError("per must be 'release' with a memo, which is one person's, got 'record'")
        if generator is not None and generator.seeded:
            raise ValueError("generator must not be a seeded one with a memo: such reports have no privacy to keep")

        def admit(before: int, new: int) -> tuple[int, LedgerEntry | None]:
            if before + new > self.words_per_person:
                raise PrivacyBudgetExhaustedError(
                    f"the memo holds {before} words and may hold {self.words_per_person}: {new} new ones do not fit",
                    max_epsilon=self.epsilon, consumed_epsilon=self._memoized_total(before),
                    hint="report words that were reported before, or plan for more words with words_per_person",
                )
            if budget is None or new == 0:
                return new, None
            return new, self._charge(budget, self._memoized_total(new), new)

        new, charge = memo.remember(self.digest, words, admit)
        words_of_one = new or max(1, len(set(words)))
        receipt = self._receipt(
            reports=len(words), per=per, words_of_one=words_of_one, memoised=True, epsilon=self._memoized_total(words_of_one),
            source=require_generator(generator),
        )
        return ReportRelease(self._drawn_from_memo(words, memo, generator), replace(receipt, charge=charge))

    def _memoized_total(self, words: int) -> float:
        """Epsilon of as many words of one person: at most `epsilon` for at most words_per_person of them."""
        return product_up(words, self.word_epsilon)

    def _charge(self, budget: Budget, epsilon: float, words: int) -> LedgerEntry | None:
        purpose = f"{self._receipt_law['mechanism']}, {plural(words, 'word')}, collection {self.digest[:16]}"
        return entry_of_charge(budget, epsilon, 0.0, PureDP(epsilon=epsilon).rho, purpose)

    def _receipt(
        self, *, reports: int, per: str, words_of_one: int, memoised: bool, epsilon: float, source: _core.Generator
    ) -> ReportReceipt:
        applies = {
            NOTE_SEED: source.seeded, NOTE_PATTERN: memoised, NOTE_NEW: memoised, NOTE_COUNT: per == "release",
            NOTE_THESE: self._receipt_law["other_values"] == 0,
        }
        return ReportReceipt(
            **self._receipt_law, per=per, epsilon=epsilon, dictionary_digest=self.digest, reports=reports,
            words_of_one=words_of_one, memoised=memoised, key_source=source.key_source,
            **cipher_fields(MEMO_CIPHER if memoised else source.cipher),  # a memo's epsilon is that of its permanent reports
            is_dp_claim=not source.seeded,
            library_version=_core.__version__,
            notes=tuple(note for note, holds in applies.items() if holds),
        )
