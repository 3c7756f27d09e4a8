"""The texts that ship: how many, what they have, and that the script makes the same."""

import collections
import json
import subprocess
import sys

from hushvec import data
from scripts.test_loop_scripts import ROOT


def test_records_are_varied():
    records = data.records()
    by_id = {record.id: record for record in records}
    assert len(records) == len(by_id) == len({record.text for record in records}) == 1200
    assert min(collections.Counter(record.category for record in records).values()) >= 150
    assert 250 <= len({record.person for record in records}) <= 300
    assert len({record.question for record in records}) >= 60
    followers = [record for record in records if record.follows is not None]
    assert len(followers) > 100
    for record in followers:
        first = by_id[record.follows]
        assert (first.person, first.category, first.follows) == (record.person, record.category, None)
        assert record.text.split(".")[0] == first.text.split(".")[0]


def test_every_slot_is_filled_and_sentences_end():
    for record in data.records():
        assert not set("{}") & set(record.text) and record.text.endswith("."), record.text
        assert "  " not in record.text and record.text[0].isupper()


def test_the_script_makes_the_same_file():
    assert subprocess.run([sys.executable, str(ROOT / "scripts/make_records.py"), "--check"], check=False).returncode == 0


def test_the_module_prints_the_file():
    done = subprocess.run([sys.executable, "-m", "hushvec.data"], capture_output=True, check=True)
    assert [data.Record(**json.loads(line)) for line in done.stdout.decode("utf-8").splitlines()] == data.records()


def test_sentences_belong_to_notes():
    assert len(data.public_sentences()) == 4 * len(data.private_notes()) == 320


def test_data_is_a_small_part_of_the_wheel():
    folder = ROOT / "python/hushvec/data"
    assert sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) < 600_000
