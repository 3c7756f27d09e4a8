"""Tables come from the results: numbers as printed, ratios by round, blocks replaced and nothing else."""

import json
import re

import pytest

import claims
import figures
import thread_chart


def contestant(*turns, items=1):
    return {"turns_ns": list(turns), "calls_per_turn": 1, "items_per_call": items}


@pytest.mark.parametrize(("ns", "text"), [(0.724, "0.72"), (9.94, "9.94"), (9.96, "10.0"), (99.0, "99.0"), (20404.1, "20,404")])
def test_ns_text(ns, text):
    assert figures.ns_text(ns) == text


@pytest.mark.parametrize(("value", "text"), [(0.874, "0.87"), (1.0, "1.0"), (9.94, "9.9"), (14.2, "14"), (27_432.0, "27,000")])
def test_ratio_has_two_digits(value, text):
    assert figures.ratio_text(value) == text


def test_ratio_is_the_median_of_the_rounds():
    assert figures.ratio(contestant(40, 600, 48, items=2), contestant(10, 100, 12)) == 2.0


def test_blocks_are_replaced_and_the_rest_stays(monkeypatch):
    monkeypatch.setattr(figures, "BLOCKS", {"one": lambda: "new\n"})
    page = "before\n<!-- figures: one -->\nold\n<!-- end of figures -->\nafter\n"
    assert figures.with_figures(page) == page.replace("old", "new")
    assert figures.with_figures("no block\n") == "no block\n"


def test_unknown_block_is_refused():
    with pytest.raises(ValueError, match="^figures must be one of .*, got 'nothing'$"):
        figures.with_figures("<!-- figures: nothing -->\n<!-- end of figures -->\n")


FILL = {"text": "fill, aes256, over MKL", "bounds": {"Zen 4": 4.0, "Intel": 1.4}, "at_most": False}
COST = {"text": "cost, aes256", "bounds": {"Zen 4": 1.2}, "at_most": True, "measured": 1.1, "verdict": "holds"}
CHACHA = {"text": "fill, chacha20", "bounds": {"Zen 4": 1.2}, "at_most": False, "measured": 1.1, "verdict": "does not hold"}
ON_AMD = [{**FILL, "measured": 3.5, "verdict": "does not hold"}, COST, CHACHA]
ON_INTEL = [{**FILL, "measured": 1.5, "verdict": "holds"}, {**COST, "verdict": "no bound known here"}]


@pytest.fixture
def judged(monkeypatch):
    """Sets the claims of both runs."""

    def set_claims(amd, intel):
        by_file = {figures.AMD.file: {"claims": amd}, figures.INTEL.file: {"claims": intel}}
        monkeypatch.setattr(figures.Machine, "record", lambda self: by_file[self.file])

    return set_claims


def test_claims_are_listed_with_their_figures(judged):
    judged(ON_AMD, [CHACHA])
    assert figures.claims().splitlines() == [
        "| claim | Zen 4 | Intel | measured on AMD Zen 4 |  |",
        "| --- | --- | --- | --- | --- |",
        "| fill, aes256, over MKL | >= 4 | >= 1.4 | 3.50 | does not hold |",
        "| cost, aes256 | <= 1.2 |  | 1.10 | holds |",
    ]


def test_second_run_with_these_claims_is_judged_by_its_own_bound(judged):
    judged(ON_AMD, ON_INTEL)
    assert figures.claims().splitlines()[2] == "| fill, aes256, over MKL | >= 4 | >= 1.4 | 3.50 | does not hold | 1.50 | holds |"


def test_pages_hold_what_the_results_say():
    for path, text in figures.published().items():
        assert path.read_text(encoding="utf-8") == text, f"{path} differs from bench/results: run bench/python/figures.py"


@pytest.mark.parametrize(("page", "blocks"), [("README.md", {"speed", "gpu_speed"}),
                                              ("docs/performance.md",
                                               {"machines", "gaussian_fill", "clip_and_noise", "claims", "threads", "aggregates", "discrete", "gpu"}),
                                             ("docs/federated_measured.md", {"federated"})])
def test_each_page_has_its_blocks(page, blocks):
    assert {match[2] for match in figures.BLOCK.finditer((figures.ROOT / page).read_text(encoding="utf-8"))} == blocks


def test_results_judge_the_claims_of_today():
    stored = [(claim["text"], claim["bounds"], claim["at_most"]) for claim in figures.AMD.record()["claims"]]
    assert sorted(map(repr, stored)) == sorted(repr((claim.text, dict(claim.bounds), claim.at_most)) for claim in claims.CLAIMS)


def test_a_gpu_is_shown_beside_its_ceilings_and_peers(monkeypatch):
    record = figures._gpu_record()
    ours = record["timings"]["exact clip and noise, float32, d = 768, 20 rounds"]
    copy, compiled = record["timings"]["device copy"], record["timings"]["torch.compile, float32, d = 768"]
    copy.update(median_ms=2.0, bytes=4e9)
    ours.update(median_ms=4.0, bytes=4e9)
    compiled.update(median_ms=10.0)
    record["checks"] = {"bounds": {"passed": True}, "pytest": {"passed": False}}
    monkeypatch.setattr(figures, "_gpu_record", lambda: record)
    assert re.search(r"^\| exact clip and noise, float32, 20 rounds \| 1,000 \| 50 % of the device copy \| .*torch\.compile 2\.5 \|$",
                     figures.gpu(), re.MULTILINE)
    assert "`bounds` ([" in figures.gpu() and "pytest" not in figures.gpu()
    assert "at 50 % of the speed of a device copy; `torch.compile` takes\n2.5 times as long" in figures.gpu_speed()


def test_aggregates_say_what_was_not_run(monkeypatch):
    def result(case, rows, name, seconds, error, not_run=None):
        return {"case": case, "rows": rows, "name": name, "guarantee": "none", "seconds": seconds, "error": error, "not_run": not_run}

    record = {
        "date": "today", "columns": 384,
        "machine": {
            "cpu": "CPU", "cores": 2, "flags": ["aes", "avx2"], "load_average": 1.0, "versions": {"hushvec": "1", "peer": "2"},
        },
        "results": [result(case, rows, *one) for case in figures.AGGREGATE_TITLES for rows in (10, 2000) for one in (
            ("ours", [0.02, 0.01, 0.03], 0.5), ("peer", [20.0, 40.0, 40.0], 0.25), ("slow", [], None, "more than 9 s"))],
        "reads": {"10": {"1": {"seconds": {"read": 0.002}, "ratios": {"private_mean": 1.26, "private_sums": 11.0}}}},
    }
    monkeypatch.setattr(figures, "_aggregates_record", lambda: record)
    lines = figures.aggregates().splitlines()
    columns = "10 rows | time | / first row | 2,000 rows | time | / first row |"
    assert lines[0] == f"| mean: error / length of the mean | guarantee | {columns}"
    assert lines[2:5] == [
        "| ours | none | 0.5 | 20 ms | 1.0 | 0.5 | 20 ms | 1.0 |",
        "| peer | none | 0.25 | 40 s | 2,000 | 0.25 | 40 s | 2,000 |",
        "| slow | none |  | more than 9 s |  |  | more than 9 s |  |",
    ]
    assert "| peer | none | 0.250 | 40 s | 2,000 | 0.250 | 40 s | 2,000 |" in lines
    assert "| 10 x 384 | 1 | 2 ms | 1.3 | 11 |" in lines
    assert lines[-1] == f"CPU, 2 cores, AVX2; today, `bench/results/{figures.AGGREGATES}`; load average 1.0; peer 2."


ABOUT = {"date": "today", "machine": {"cpu": "CPU", "cores": 2, "flags": ["avx2"], "load_average": 1.0, "versions": {"peer": "2"}}}


def test_discrete_samples_are_shown_by_sigma(monkeypatch):
    def result(name, sigma, *ns, not_run=None):
        return {"name": name, "sigma": sigma, "secure": True, "exact": name == "ours", "ns": ns, "complaint": None, "not_run": not_run}

    results = [result("ours", 4.0, 2.0, 4.0, 3.0), result("peer", 4.0, 40.0, 60.0, 75.0),
               result("ours", 3.2e5, 5.0), result("peer", 3.2e5, 543_210_987.0)]
    claims = [{"sigma": 4.0, "at_most": 1.3, "measured": 0.8, "verdict": "holds"},
              {"sigma": 3.2e5, "at_most": 1.3, "measured": 1.312, "verdict": "does not hold"}]
    monkeypatch.setattr(figures, "_record", lambda file: {**ABOUT, "results": results, "claims": claims})
    lines = figures.discrete().splitlines()
    assert lines[0].endswith("| exact law | sigma 4, ns | / first row | sigma 320,000, ns | / first row |")
    assert lines[2:4] == ["| ours | yes | yes | 3.00 | 1.0 | 5.00 | 1.0 |",
                          "| peer | yes | no | 60.0 | 20 | 540,000,000 | 110,000,000 |"]
    assert lines[5] == "int64 against the exact pass, at most 1.3: 0.80 at sigma 4 (holds), 1.31 at sigma 320,000 (does not hold)."
    results[1:2] = [result("peer", 4.0, not_run="not installed")]
    assert "| peer | yes | no | not installed |  | 540,000,000 | 110,000,000 |" in figures.discrete()


def test_federated_updates_are_shown_with_their_audit(monkeypatch):
    def release(name, size, seconds, cosine, claimed, not_run=None):
        return {"name": name, "parameters": size, "seconds": seconds, "cosine": cosine, "claimed": claimed, "not_run": not_run}

    def audit(name, epsilon, lower, noise):
        return {"name": name, "claimed": [epsilon, 1e-5], "epsilon_lower": lower, "refuted": lower > epsilon, "noise_epsilon": noise,
                "not_run": None, "releases": [30, 300], "epsilon_ceiling": lower + 1}

    names = ("ours", "wrong", "by size", "away")
    speed = [release(name, size, [0.02, 0.01, 0.03], 0.99, [epsilon, 0.0])
             for size, large in (("2,000", 200.1), ("10", 1.1)) for name, epsilon in zip(names, (10.0, 10.0, large))]
    speed += [release("away", size, [], None, None, "not installed") for size in ("2,000", "10")]
    audits = [audit("ours", 10.0, 7.26, 10.0), audit("wrong", 10.0, 11.96, 8.52e8), audit("by size", 0.9, 0.0, None)]
    monkeypatch.setattr(figures, "_record", lambda file: {**ABOUT, "speed": speed, "audit": audits, "parameters": 8})
    lines = figures.federated().splitlines()
    both = "20 ms | 0.9900 | 20 ms | 0.9900 |"
    assert lines[0].endswith("| epsilon of its noise | 2,000 parameters | cosine | 10 parameters | cosine |")
    assert lines[2:6] == [
        f"| ours | 10 | 7.3 | no | 10.0 | {both}",
        f"| wrong | 10 | 12.0 | **yes** | 850,000,000 | {both}",
        f"| by size | 0.9 of 8, 1.1 of 10, 200.1 of 2,000 | 0.0 | no |  | {both}",
        "| away |  |  |  |  | not installed |  | not installed |  |",
    ]
    assert lines[7:9] == ["Audited with 30 releases of the one and 300 of the other update: ours, wrong, by size;",
                          "this sample size cannot show more than 13.0."]
    assert lines[-1] == f"CPU, 2 cores, AVX2; today, `bench/results/{figures.FEDERATED['audit']}`; load average 1.0; peer 2."


def test_check_names_the_page_that_differs(monkeypatch, tmp_path, capsys):
    page = tmp_path / "README.md"
    page.write_text("old")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "published", lambda: {page: "new"})
    assert figures.main(["--check"]) == 1
    assert capsys.readouterr().err == "README.md differs from bench/results: run bench/python/figures.py\n"
    assert page.read_text() == "old"
    assert figures.main([]) == 0
    assert page.read_text() == "new"
    assert figures.main(["--check"]) == 0


def test_chart_draws_every_measured_point():
    record = {
        "operations": {"a": {"title": "A", "compute_ns": 0.8, "ns": {"1": 0.9, "2": 0.5}, "copy_ns": {"1": 0.3, "2": 0.2},
                             "model": {"ns": {"1": 0.8, "2": 0.4}, "memory_takes_over_at": 4.0}}},
    }
    drawn = thread_chart.svg(json.loads(json.dumps(record)))
    assert drawn.count("<circle") == 4
    places = [tuple(map(float, place)) for place in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    one, two = places[2:]
    assert one[0] == thread_chart.LEFT and one[1] < two[1] < thread_chart.BOTTOM
    assert "stroke-dasharray" in drawn


def test_chart_bends_the_model_where_memory_takes_over():
    operation = {"compute_ns": 0.8, "ns": {"1": 0.9, "2": 0.5}, "model": {"memory_takes_over_at": 4.0}}
    assert thread_chart._beyond(operation) == [(4.0, 0.2), (16, 0.2)]
    operation["model"]["memory_takes_over_at"] = 32.0
    assert thread_chart._beyond(operation) == [(16, 0.05)]
    operation["model"]["memory_takes_over_at"] = 1.5
    assert thread_chart._beyond(operation) == [(16, pytest.approx(0.8 / 1.5))]
