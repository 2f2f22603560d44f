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

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from recalljoin.dashboard.followed import FollowedJoin
from recalljoin.dashboard.metrics import metrics_text
from recalljoin.dashboard.server import Dashboard
from recalljoin.spark.control_log import ControlLog
from tests.dashboard.browser import until
from tests.dashboard.logs import START, live_join, stops
from tests.spark.live import MINUTE, SECOND, Feed, both
from tests.spark.test_sources import devices

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


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


def everything(folder: Path, patch: pytest.MonkeyPatch) -> FollowedJoin:
    """A join with sources and a limit, whose times are dates, and which has refused a row."""
    feeds = [devices(seed, length=MINUTE, silences=3) for seed in (2, 3)]
    ts = [feed.ts + 1000 * START for feed in feeds]
    # One row of the first stream is of another century.
    ts[0][np.argmax(feeds[0].at > 30 * SECOND)] *= 3
    dated = [
        Feed.of(times, feed.key, feed.at, feed.device)
        for times, feed in zip(ts, feeds, strict=True)
    ]
    live = live_join(
        folder, patch, dated, recall=0.99, source="device", quality={"max_wait": "9 seconds"}
    )
    live.run(50 * SECOND, batch=SECOND)
    join = FollowedJoin(ControlLog(live.log))
    join.catch_up()
    return join


def names_in(text: str) -> set[str]:
    return set(re.findall(r"recalljoin_[a-z_]+", text))


def test_every_metric_is_documented_and_every_name_exists(
    joins: list[FollowedJoin], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = families([*joins, everything(tmp_path, monkeypatch)])
    told = {sample.name for family in found.values() for sample in family.samples}
    assert names_in((DOCS / "operations.md").read_text("utf-8")) == told
    for file in ("alerts.yml", "grafana.json"):
        assert names_in((DOCS / "operations" / file).read_text("utf-8")) <= told


def test_every_alert_is_on_the_page() -> None:
    rules = (DOCS / "operations" / "alerts.yml").read_text("utf-8")
    page = (DOCS / "operations.md").read_text("utf-8")
    alerts = re.findall(r"alert: (\w+)", rules)
    assert len(alerts) == 8
    assert {name for name in alerts if f"`{name}`" not in page} == set()


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
