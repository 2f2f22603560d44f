"""Metrics, read by Prometheus's own library, and the files that go with them."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from recalljoin.dashboard.followed import FollowedJoin
from recalljoin.dashboard.metrics import metrics_text
from recalljoin.dashboard.server import Dashboard
from recalljoin.spark.control_log import ControlLog
from tests.dashboard.browser import until
from tests.dashboard.logs import live_join, stops
from tests.spark.live import MINUTE, SECOND, both

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
OF_OTHER_JOINS = {
    # These are there where a join has refused a row, or has a limit.
    "recalljoin_refused_rows_by_reason_total",
    "recalljoin_max_wait_seconds",
    # These are there where streams have sources.
    "recalljoin_sources",
    "recalljoin_source_behind_seconds",
    "recalljoin_sources_behind_seconds",
    "recalljoin_held_by_source_seconds",
    # These are there where times are dates.
    "recalljoin_stream_lag_seconds",
}


@pytest.fixture(scope="module")
def joins(tmp_path_factory: pytest.TempPathFactory) -> list[FollowedJoin]:
    """Two joins, one of which has stalled; the name of its folder is no plain word."""
    with pytest.MonkeyPatch.context() as patch:
        one, two = both(6, 5 * MINUTE)
        folder = tmp_path_factory.mktemp("logs")
        well = live_join(folder / "well", patch, [one, two])
        well.run(3 * MINUTE, batch=10 * SECOND)
        ill = live_join(folder / 'i"ll\n', patch, [one, stops(two, MINUTE)])
        ill.run(3 * MINUTE, batch=10 * SECOND)
    found = [FollowedJoin(ControlLog(live.log)) for live in (well, ill)]
    for join in found:
        join.catch_up()
    return found


def families(joins: list[FollowedJoin]) -> dict[str, Metric]:
    return {each.name: each for each in text_string_to_metric_families(metrics_text(joins))}


def value(joins: list[FollowedJoin], family: str, at: int, **labels: str) -> float:
    wanted = {"join": "recalljoin", "log": joins[at].log.shown, **labels}
    (found,) = [s.value for s in families(joins)[family].samples if s.labels == wanted]
    return float(found)


def test_the_metrics_are_the_numbers_of_the_joins(joins: list[FollowedJoin]) -> None:
    for at, join in enumerate(joins):
        now = join.now()
        assert value(joins, "recalljoin_wait_seconds", at) == now["k"]
        assert value(joins, "recalljoin_recall", at) == now["recall"]
        assert value(joins, "recalljoin_recall_target", at) == 0.95
        # The library takes `_total` off the names of what is counted.
        assert value(joins, "recalljoin_results", at) == now["totals"]["produced"] > 0
        assert value(joins, "recalljoin_lost_results", at) == now["totals"]["lost"]
        arrived = [value(joins, "recalljoin_arrived_tuples", at, stream=s) for s in ("s0", "s1")]
        assert sum(arrived) == now["totals"]["arrived"]
    assert value(joins, "recalljoin_stream_stalled", 0, stream="s1") == 0
    assert value(joins, "recalljoin_stream_stalled", 1, stream="s1") == 1
    assert value(joins, "recalljoin_stream_behind_seconds", 1, stream="s1") > 60


def test_a_join_without_a_batch_has_no_metrics(tmp_path: Path) -> None:
    assert metrics_text([FollowedJoin(ControlLog(str(tmp_path)))]) == ""


def names_in(text: str) -> set[str]:
    return set(re.findall(r"recalljoin_[a-z_]+", text))


def test_every_metric_is_documented_and_every_name_exists(joins: list[FollowedJoin]) -> None:
    told = {
        sample.name for family in families(joins).values() for sample in family.samples
    } | OF_OTHER_JOINS
    assert names_in((DOCS / "operations.md").read_text("utf-8")) == told
    for file in ("alerts.yml", "grafana.json"):
        assert names_in((DOCS / "operations" / file).read_text("utf-8")) <= told


def test_the_dashboard_for_grafana_has_panels_that_do_not_overlap() -> None:
    board: dict[str, Any] = json.loads((DOCS / "operations" / "grafana.json").read_text("utf-8"))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places) >= 10
    assert len({panel["id"] for panel in board["panels"]}) == len(places)


def test_prometheus_takes_the_alerts() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool; it comes with Debian's package prometheus")
    done = subprocess.run(
        [promtool, "check", "rules", str(DOCS / "operations" / "alerts.yml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 rules found" in done.stdout


def test_prometheus_takes_the_metrics(joins: list[FollowedJoin]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool; it comes with Debian's package prometheus")
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=metrics_text(joins), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_prometheus_scrapes_the_server_and_raises_the_alerts(
    joins: list[FollowedJoin], tmp_path: Path
) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no Prometheus; Debian has it as a package of that name")
    board = Dashboard([join.log for join in joins]).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\n"
        f"rule_files: ['{DOCS / 'operations' / 'alerts.yml'}']\n"
        "scrape_configs:\n"
        "  - job_name: recalljoin\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{board.port}']}}]\n"
    )
    process = subprocess.Popen(
        [
            program, f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def asked(query: str) -> list[dict[str, Any]]:
        address = f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}"
        try:
            with urlopen(address, timeout=10) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found
        except OSError:
            return []

    try:
        until(lambda: len(asked("recalljoin_recall_target")) == 2, seconds=60)
        (stalled,) = asked("recalljoin_stream_stalled == 1")
        assert stalled["metric"]["stream"] == "s1"
        assert stalled["metric"]["log"] == joins[1].log.shown
        until(lambda: bool(asked("ALERTS{alertname='StreamStalled'}")), seconds=60)
        (alert,) = asked("ALERTS{alertname='StreamStalled'}")
        assert alert["metric"]["alertstate"] == "pending"
    finally:
        process.terminate()
        process.wait(timeout=30)
        board.stop()
