"""Filters on metadata: which rows they match, beside Chroma's, and what is refused."""

import itertools
import os

import pytest

from hushvec.retrieval.index.filters import matcher

ROW = {"n": 3, "x": 1.5, "s": "b", "flag": True, "none": None, "tags": ["p", "q"], "numbers": [1, 5]}

MATCHES = [
    ({}, True),
    ({"n": 3}, True),
    ({"n": 3.0}, True),
    ({"n": 4}, False),
    ({"n": "3"}, False),
    ({"n": 3, "s": "b"}, True),
    ({"n": 3, "s": "c"}, False),
    ({"flag": True}, True),
    ({"flag": 1}, False),
    ({"n": {"$in": [True, 3]}}, True),
    ({"none": None}, True),
    ({"missing": None}, True),
    ({"missing": {"$ne": 1}}, True),
    ({"missing": {"$nin": [1]}}, True),
    ({"missing": {"$in": [None]}}, True),
    ({"missing": {"$gt": 0}}, False),
    ({"none": {"$lte": 0}}, False),
    ({"n": {"$eq": 3}}, True),
    ({"n": {"$ne": 3}}, False),
    ({"n": {"$gt": 2, "$lt": 4}}, True),
    ({"n": {"$gt": 3}}, False),
    ({"n": {"$gte": 3, "$lte": 3}}, True),
    ({"x": {"$gt": 1}}, True),
    ({"s": {"$gt": "a"}}, True),
    ({"s": {"$gt": 0}}, False),
    ({"n": {"$lt": "z"}}, False),
    ({"flag": {"$gte": 0}}, False),
    ({"n": {"$in": [1, 3]}}, True),
    ({"n": {"$in": []}}, False),
    ({"n": {"$nin": []}}, True),
    ({"n": {"$nin": [1, 3]}}, False),
    ({"n": {"$not": {"$gt": 3}}}, True),
    ({"n": {"$not": {"$in": [3]}}}, False),
    ({"tags": "p"}, True),
    ({"tags": "r"}, False),
    ({"tags": ["p", "q"]}, True),
    ({"tags": ["q", "p"]}, False),
    ({"tags": {"$in": ["r", "q"]}}, True),
    ({"tags": {"$nin": ["r", "q"]}}, False),
    ({"tags": {"$ne": "r"}}, True),
    ({"numbers": {"$gt": 4}}, True),
    ({"numbers": {"$gt": 5}}, False),
    ({"$and": [{"n": 3}, {"s": "b"}]}, True),
    ({"$and": [{"n": 3}, {"s": "c"}]}, False),
    ({"$or": [{"n": 4}, {"s": "b"}]}, True),
    ({"$or": [{"n": 4}, {"s": "c"}]}, False),
    ({"$not": {"n": 4}}, True),
    ({"$not": {"n": 3}}, False),
    ({"$or": [{"$and": [{"n": 3}, {"$not": {"s": "b"}}]}, {"flag": False}]}, False),
    ({"n": 3, "$or": [{"s": "b"}, {"s": "c"}]}, True),
]


@pytest.mark.parametrize(("where", "expected"), MATCHES, ids=str)
def test_what_a_filter_matches(where, expected):
    assert matcher(where)(ROW) is expected


REFUSED = [
    (None, TypeError, "where must be a mapping, .*got NoneType"),
    ([{"n": 1}], TypeError, "where must be a mapping, .*got list"),
    (lambda row: True, TypeError, "where must be a mapping, .*got function"),
    ({1: 2}, TypeError, "where must have strings as keys, got int"),
    ({"$nor": [{"n": 1}]}, ValueError, r"where must have operators among \$and, \$or, \$not, got '\$nor'"),
    ({"$eq": 1}, ValueError, r"where must have operators among \$and, \$or, \$not, got '\$eq'"),
    ({"n": {"$regex": "a"}}, ValueError, r"where\['n'\] must have operators among \$eq, .*, got '\$regex'"),
    ({"n": {"m": 1}}, ValueError, r"where\['n'\] must have operators among \$eq, .*, got 'm'"),
    ({"n": {}}, ValueError, r"where\['n'\] must have at least one operator"),
    ({"n": {"$in": 1}}, TypeError, r"'\$in' of where\['n'\] must be a list, got int"),
    ({"n": {"$nin": (1, 2)}}, TypeError, r"'\$nin' of where\['n'\] must be a list, got tuple"),
    ({"n": {"$in": [[1]]}}, TypeError, "must be a str, int, float, bool or None, got list"),
    ({"n": {"$gt": None}}, TypeError, r"'\$gt' of where\['n'\] must be a number or a str, got NoneType"),
    ({"n": {"$lte": True}}, TypeError, "must be a number or a str, got bool"),
    ({"n": {"$lt": [1]}}, TypeError, "must be a number or a str, got list"),
    ({"n": {"$not": 3}}, TypeError, r"'\$not' of where\['n'\] must be a mapping of operators, got int"),
    ({"n": object()}, TypeError, r"where\['n'\] must be a str, int, float, bool or None, got object"),
    ({"$and": []}, TypeError, r"where must have a list of filters in '\$and', got \[\]"),
    ({"$or": {"n": 1}}, TypeError, r"where must have a list of filters in '\$or', got \{'n': 1\}"),
    ({"$or": [{"n": 1}, 3]}, TypeError, r"where\['\$or'\]\[1\] must be a mapping"),
    ({"$not": [{"n": 1}]}, TypeError, r"where\['\$not'\] must be a mapping"),
]


@pytest.mark.parametrize(("where", "error", "message"), REFUSED)
def test_filters_that_are_refused(where, error, message):
    with pytest.raises(error, match=message):
        matcher(where)


def test_a_filter_without_end_is_refused():
    where = {}
    where["$not"] = where
    with pytest.raises(ValueError, match="nested too deeply"):
        matcher(where)


def test_filters_agree_with_chroma():
    """An independent program, on rows that have all fields: what a missing one means differs between stores."""
    os.environ["ANONYMIZED_TELEMETRY"] = "False"
    chromadb = pytest.importorskip("chromadb")
    rows = [{"n": n, "s": s} for n, s in itertools.product((-1, 0, 2, 3.5), "abc")]
    collection = chromadb.EphemeralClient().create_collection("filters")
    collection.add(ids=[str(place) for place in range(len(rows))], embeddings=[[1.0]] * len(rows), metadatas=rows)
    numbers = [{"n": {how: 2}} for how in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")]
    choices = [{"s": {"$in": ["a", "c"]}}, {"s": {"$nin": ["a"]}}, {"s": "b"}, {"n": {"$in": [0, 2]}}]
    single = numbers + choices
    pairs = [{how: list(pair)} for how in ("$and", "$or") for pair in itertools.combinations(single, 2)]
    for where in single + pairs:
        expected = {int(one) for one in collection.get(where=where, include=[])["ids"]}
        assert {place for place, row in enumerate(rows) if matcher(where)(row)} == expected, where
