"""One release in parts: batches in any order, a retry after a crash, one charge, one receipt."""

import tempfile
from pathlib import Path

import numpy as np

import hushvec as hv
from hushvec.jobs import NoiseJob, noise_batch

DIMENSION, ROWS = 384, 2000


def main():
    vectors = np.random.default_rng(7).standard_normal((ROWS, DIMENSION)).astype(np.float32)
    ids = np.arange(ROWS) * 11 + 5

    with tempfile.TemporaryDirectory() as folder:
        budget = hv.PrivacyBudget(max_epsilon=10.0, persist_key="corpus", store=Path(folder) / "budget.sqlite")
        path = Path(folder) / "job.json"
        job = NoiseJob.start(dimension=DIMENSION, epsilon=8.0, normalize=True, rows_by="integer-ids", budget=budget, path=path)
        whole = noise_batch(vectors, job, ids=ids)

        # A driver that was restarted: the same job, not a second charge, the same bits in other batches and another order.
        again = NoiseJob.start(dimension=DIMENSION, epsilon=8.0, normalize=True, rows_by="integer-ids", budget=budget, path=path)
        order = np.random.default_rng(1).permutation(ROWS)
        parts = [noise_batch(vectors[some], again, ids=ids[some]) for some in np.array_split(order, 9)]
        same = (np.concatenate(parts) == whole[order]).all()
        print(f"job {job.id}: {ROWS} rows in 9 batches, bits as in one: {same}")
        print(f"epsilon charged: {budget.consumed()} of {budget.remaining() + budget.consumed()}")

        # Other data at a place: its noise differs from that of the first attempt.
        changed = vectors[:1] * np.float32(1.5) + np.float32(0.01)
        first, second = whole[:1], noise_batch(changed, job, ids=ids[:1])
        print(f"elements that a retry with other data repeats: {(first == second).sum()} of {DIMENSION}")

        receipt = job.receipt(ROWS)
        answer = hv.verify_charges([receipt], budget.export())
        print(f"receipt: {hv.verify_receipt(receipt).status}; paid for: {answer.status}")
        budget.close()
        path.unlink()


if __name__ == "__main__":
    main()
