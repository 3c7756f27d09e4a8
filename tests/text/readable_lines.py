"""Lines of clinical and developer text from the templates in readable_lines.txt, and where in them stands what must be hidden."""

import base64
import random
import re
from pathlib import Path

SLOT = re.compile(r"\{(!?)(\w+)\}")
HEX = "0123456789abcdef"
WORDS = ["parser", "cache", "login", "search", "report", "index", "backup", "export", "filter", "queue"]


def _hex(digits):
    return lambda rng: rng.choice("123456789abcdef") + "".join(rng.choice(HEX) for _ in range(digits - 1))


def _whole(low, high):
    return lambda rng: str(rng.randint(low, high))


def _decimal(low, high):
    return lambda rng: f"{rng.uniform(low, high):.1f}"


SLOTS = {
    **dict(sys=_whole(95, 190), dia=_whole(50, 110), hr=_whole(45, 140), rr=_whole(10, 30), sat=_whole(86, 99)),
    "temp": _decimal(35.5, 40.2),
    **dict(weight=_whole(45, 120), height=_whole(145, 199), bmi=_decimal(17, 40), small=_whole(2, 28), pct=_whole(20, 75)),
    **dict(na=_whole(128, 150), k=_decimal(3, 6), cl=_whole(92, 112), co2=_whole(18, 32), cr=_decimal(0.5, 4), glu=_whole(60, 320)),
    **dict(wbc=_decimal(3, 18), hgb=_decimal(8, 17), plt=_whole(100, 480), dose=_whole(100, 950), thousand=_whole(1000, 9999)),
    **dict(iso=_whole(9000, 29999), rfc=_whole(700, 9700), icd9=_decimal(200, 899), cpt=_whole(10021, 99499), yy=_whole(10, 26)),
    "icd": lambda rng: f"{rng.choice('ABCEGIJKLMNRSZ')}{rng.randint(0, 99):02d}.{rng.randint(0, 99)}",
    "loinc": lambda rng: f"{rng.randint(1000, 99999)}-{rng.randint(0, 9)}",
    "snomed": lambda rng: str(rng.randint(10_000_000, 999_999_999)),
    "atc": lambda rng: f"{rng.choice('ABCDGHJ')}{rng.randint(1, 16):02d}A{rng.choice('ABC')}{rng.randint(1, 99):02d}",
    "ndc": lambda rng: f"{rng.randint(10000, 99999)}-{rng.randint(100, 999)}-{rng.randint(10, 99)}",
    "http": lambda rng: rng.choice(["200", "201", "301", "404", "429", "500", "503"]),
    "word": lambda rng: rng.choice(WORDS),
    **dict(git=_hex(40), git8=_hex(8), sha256=_hex(64), md5=_hex(32), hex32=_hex(32), hex40=_hex(40), hex64=_hex(64)),
    "base64": lambda rng: base64.b64encode(rng.randbytes(64)).decode().rstrip("="),
    "base43": lambda rng: base64.b64encode(rng.randbytes(32)).decode().rstrip("="),
    "mixed": lambda rng: "".join(rng.choice(group) for _ in range(10) for group in ("abcdefghjk", "3456789", "QRSTUVWXYZ")),
    "ms": lambda rng: str(rng.randint(1_500_000_000_000, 1_799_999_999_999)),
    "sec": lambda rng: str(rng.randint(1_500_000_000, 1_799_999_999)),
    "micro": lambda rng: str(rng.randint(100_000, 999_999)),
    "snow": lambda rng: str(rng.randint(10**17, 10**18)),
    "uuid": lambda rng: "-".join(_hex(size)(rng) for size in (8, 4, 4, 4, 12)),
    "mrn": lambda rng: str(rng.randint(1_000_000, 9_999_999)),
    "phone": lambda rng: f"415-555-{rng.randint(100, 199):04d}",
    "dob": lambda rng: f"{rng.randint(1, 12):02d}/{rng.randint(1, 28):02d}/{rng.randint(1930, 2015)}",
    "email": lambda rng: f"{rng.choice(WORDS)}.{rng.randint(1, 99)}@example.com",
    "ip": lambda rng: f"203.0.113.{rng.randint(1, 254)}",
}  # fmt: skip


def templates():
    """Kind -> templates."""
    kinds = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]") and "{" not in line:
            found = kinds.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            found.append(line)
    return kinds


def lines(count, seed=0):
    """(kind, line, places to hide as (start, end)) of `count` lines, the templates in turn."""
    rng = random.Random(seed)
    listed = [(kind, template) for kind, those in templates().items() for template in those]
    for number in range(count):
        kind, template = listed[number % len(listed)]
        parts, places, position, length = [], [], 0, 0
        for slot in SLOT.finditer(template):
            drawn = SLOTS[slot[2]](rng)
            parts += (template[position : slot.start()], drawn)
            length += slot.start() - position
            if slot[1]:
                places.append((length, length + len(drawn)))
            length += len(drawn)
            position = slot.end()
        yield kind, "".join((*parts, template[position:])), places


def judged(redact, drawn):
    """Of drawn lines: (characters hidden that should be, characters hidden, characters to hide, lines that lost something, leaks)."""
    right = hidden = planted = 0
    lost, leaks = [], []
    for kind, line, places in drawn:
        result = redact(line)
        wanted = {at for start, end in places for at in range(start, end)}
        found = {at for span in result.spans for at in range(span.start, span.end)}
        right, hidden, planted = right + len(found & wanted), hidden + len(found), planted + len(wanted)
        if found - wanted:
            lost.append((kind, line, result.text))
        if wanted - found:
            leaks.append((kind, line, result.text))
    return right, hidden, planted, lost, leaks
