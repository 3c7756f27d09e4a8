"""Lists of words that the rules for names read: given names, countries, and words that are not names."""

from __future__ import annotations

from functools import cache
from importlib import resources

from hushvec.text.pii.letters import words

# Words that stand capitalised in ordinary English text without being a name.
NOT_NAMES = words(
    "i've i'm i'd i'll we've we're we'll you've you're they've they're it's that's he's she's there's what's don't like frequently "
    "a an the this that these those there here i you he she it we they me him her us them my your his its our their mine "
    "yours who whom whose what which when where why how if whether because although though since until while as than so but "
    "and or nor not no yes ok okay please thanks thank regards sincerely dear hello hi hey good morning afternoon evening "
    "night best kind warm cheers for from to in on at by with without of off up down out over under about after before "
    "between into through during against is am are was were be been being do does did done has have had having will would "
    "shall should can could may might must let lets one two three four five six seven eight nine ten first second third "
    "next last new old other another each every all both some any more most many much few less also just only even still "
    "already again ever never always often then now today tomorrow yesterday monday tuesday wednesday thursday friday "
    "saturday sunday mon tue wed thu fri sat sun january february march april june july august september october november "
    "december jan feb mar apr jun jul aug sep sept oct nov dec mr mrs ms miss dr prof professor sir madam lord lady rev "
    "reverend hon judge captain capt major colonel col sergeant lieutenant customer customers client user users team "
    "support service services sales admin administrator manager director president ceo chair doctor nurse patient officer "
    "agent editor author reader colleague colleagues friend friends family folks everyone everybody anyone someone nobody "
    "somebody people members member sirs ladies gentlemen all guys mom dad mum mother father sister brother name phone "
    "email mail address date fax mobile tel website web account number card order invoice subject note notes re fwd cc bcc "
    "god lord christmas easter internet english french german spanish italian dutch russian chinese japanese american "
    "british european sorry welcome congratulations looking going trying happy glad sure afraid writing calling not very "
    "really too quite currently inc ltd llc corp gmbh company group university college school hospital bank street avenue "
    "road lane drive city town state county country north south east west northern southern eastern western central upper "
    "lower great united states kingdom bot chatbot assistant system question answer summary report section chapter table "
    "figure part page"
)


@cache
def given_names() -> tuple[frozenset[str], frozenset[str]]:
    """(names that stand alone, names that are words too and need a surname), in lower case."""
    first, _, second = _read("given_names.txt").partition("# only with a surname")
    words = frozenset(_words(second))
    return frozenset(_words(first)) - words, words


@cache
def countries() -> tuple[str, ...]:
    lines = (line for line in _read("countries.txt").splitlines() if not line.startswith("#"))
    return tuple(name.strip() for line in lines for name in line.split(";") if name.strip())


def _words(content: str) -> list[str]:
    return [word for line in content.splitlines() if not line.startswith("#") for word in line.split()]


def _read(name: str) -> str:
    return resources.files("hushvec").joinpath("data", name).read_text(encoding="utf-8")
