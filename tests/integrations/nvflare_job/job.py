"""NVFlare's simulator with two sites: python job.py FOLDER [MODEL] writes FOLDER/work and FOLDER/job.json.

Without a model four rounds, and ledgers for two; with one of flower_app's ten, and ledgers for five. Started again in the same
folder it goes on with the model and the ledgers that are there.
"""

import json
import os
import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "flower_app")]
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)   # of the sites

import numpy as np
from models import MODELS
from nvflare.app_common.aggregators.intime_accumulate_model_aggregator import InTimeAccumulateWeightedAggregator
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.app_common.shareablegenerators.full_model_shareable_generator import FullModelShareableGenerator
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather
from nvflare.job_config.api import FedJob, FilterType
from trainer import Trainer

from hushvec.integrations.nvflare import PrivateUpdates

folder, model = Path(sys.argv[1]).resolve(), (sys.argv[2:] or [None])[0]
rounds, terms, start = 4, {"epsilon": 8.0, "rounds": 2}, {}
if model is not None:
    rounds, terms = 10, {"noise_multiplier": 0.002, "rounds": 5}
    arrays = [part.ravel() for part in MODELS[model]()[0].values() if part.dtype.kind == "f"]
    start = {"model": np.concatenate(arrays).tolist()}
    if (saved := folder / "work/server/simulate_job/models/server.npy").exists():
        saved.rename(folder / "saved.npy")
        start = {"source_ckpt_file_full_name": str(folder / "saved.npy")}
job = FedJob("private", min_clients=2)
job.to_server(NPModelPersistor(**start), id="persistor")
job.to_server(FullModelShareableGenerator(), id="generator")
job.to_server(InTimeAccumulateWeightedAggregator(expected_data_kind="WEIGHT_DIFF"), id="aggregator")
job.to_server(
    ScatterAndGather(
        min_clients=2, num_rounds=rounds, train_timeout=20, wait_time_after_min_received=0, train_task_name="train",
        aggregator_id="aggregator", persistor_id="persistor", shareable_generator_id="generator",
    )
)  # fmt: skip
for site in ("site-1", "site-2"):
    private = PrivateUpdates(clip_norm=1.0, delta=1e-5, store=f"sqlite:///{folder}/ledgers.db", **terms)
    job.to(Trainer(model, str(folder)), site, tasks=["train"])
    job.to(private, site, tasks=["train"], filter_type=FilterType.TASK_RESULT)
job.export_job(str(folder / "job"))
config = json.loads(next((folder / "job").rglob("app_site-1/config/config_fed_client.json")).read_text())
(folder / "job.json").write_text(json.dumps(config["task_result_filters"][0]["filters"][0]))
job.simulator_run(str(folder / "work"), threads=2)
