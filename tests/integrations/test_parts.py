"""What a worker of an aggregate makes of the Arrow batches of a part, without an engine."""

import numpy as np
import pytest

from hushvec.aggregates import RowsInParts, private_sums
from integrations.scale_out import AGGREGATE_DIMENSION, TERMS, people_and_groups

pyarrow = pytest.importorskip("pyarrow")

from hushvec.integrations._parts import PART, Columns, part_of  # noqa: E402


@pytest.mark.parametrize(("by_group", "by_person"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_part_of_batches_is_that_of_their_rows(by_group, by_person):
    """In one row of one column, whatever else the batches have; a person's rows are counted over all of them."""
    rows = np.random.default_rng(3).standard_normal((90, AGGREGATE_DIMENSION)).astype(np.float32)
    people, groups = people_and_groups(90)
    vectors = pyarrow.array(rows.tolist(), pyarrow.list_(pyarrow.float32()))
    table = pyarrow.table({"other": np.arange(90), "person": people, "group": groups, "vector": vectors})
    names = Columns(AGGREGATE_DIMENSION, "vector", "group" if by_group else None, "person" if by_person else None)
    beside = (groups if by_group else None, people if by_person else None)
    found = []

    def run(worker):
        made = part_of(table.to_batches(max_chunksize=20), worker, names)
        assert made.schema.names == [PART] and made.num_rows == 1
        found.extend([made.column(0)[0].as_py(), worker([(rows, *beside)])])
        return found[:1]

    private_sums(RowsInParts(run, AGGREGATE_DIMENSION, by_group, by_person), labels=4 if by_group else None, **TERMS)
    assert found[0] == found[1]
