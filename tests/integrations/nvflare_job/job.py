"""Four rounds of NVFlare's simulator with two sites, each of which may send two private updates: FOLDER/work, FOLDER/job.json."""

import json
import sys
from pathlib import Path

from nvflare.app_common.aggregators.intime_accumulate_model_aggregator import InTimeAccumulateWeightedAggregator
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.app_common.shareablegenerators.full_model_shareable_generator import FullModelShareableGenerator
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather
from nvflare.job_config.api import FedJob, FilterType
from trainer import Trainer

from hushvec.integrations.nvflare import PrivateUpdates

folder = Path(sys.argv[1])
job = FedJob("private", min_clients=2)
job.to_server(NPModelPersistor(), id="persistor")
job.to_server(FullModelShareableGenerator(), id="generator")
job.to_server(InTimeAccumulateWeightedAggregator(expected_data_kind="WEIGHT_DIFF"), id="aggregator")
job.to_server(
    ScatterAndGather(
        min_clients=2, num_rounds=4, train_timeout=20, wait_time_after_min_received=0, train_task_name="train",
        aggregator_id="aggregator", persistor_id="persistor", shareable_generator_id="generator",
    )
)  # fmt: skip
for site in ("site-1", "site-2"):
    private = PrivateUpdates(clip_norm=1.0, epsilon=8.0, delta=1e-5, rounds=2, store=f"sqlite:///{folder}/ledgers.db")
    job.to(Trainer(), site, tasks=["train"])
    job.to(private, site, tasks=["train"], filter_type=FilterType.TASK_RESULT)
job.export_job(str(folder / "job"))
config = json.loads(next((folder / "job").rglob("app_site-1/config/config_fed_client.json")).read_text())
(folder / "job.json").write_text(json.dumps(config["task_result_filters"][0]["filters"][0]))
job.simulator_run(str(folder / "work"), threads=2)
