"""What the dashboard's server answers, and what it refuses to answer."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recalljoin.dashboard.columns import HIGHEST, LAST, LOWEST, MEAN, SUM, Columns
from recalljoin.dashboard.followed import FollowedJoin
from recalljoin.dashboard.server import Dashboard
from recalljoin.errors import InvalidSetting
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.progress import forecast_table, progress_table
from tests.dashboard.logs import START, disordered, live_join, long_log, stops
from tests.spark.live import MINUTE, SECOND, Live, both

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Live:
    with pytest.MonkeyPatch.context() as patch:
        return disordered(tmp_path_factory.mktemp("log"), patch)


@pytest.fixture
def board(live: Live) -> Iterator[Dashboard]:
    board = Dashboard([ControlLog(live.log)]).start()
    while not board.joins[0].now()["is_read"]:
        time.sleep(0.05)
    yield board
    board.stop()


def get(
    board: Dashboard, path: str, *, host: str | None = "localhost", method: str = "GET"
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def series(board: Dashboard, query: str = "") -> dict[str, Any]:
    _, content = get(board, f"/api/joins/0/series{query}")
    found: dict[str, Any] = json.loads(content)
    return found


def test_the_numbers_are_those_of_the_progress(live: Live, board: Dashboard) -> None:
    table = progress_table(ControlLog(live.log))
    columns = series(board)["columns"]
    assert columns["batch"] == table["batch"].to_pylist()
    for name in ("arrived", "produced", "lost", "late", "buffered", "target"):
        assert columns[name] == table[name].to_pylist(), name
    for name in ("k", "latency"):
        seconds = [None if v is None else v.total_seconds() for v in table[name].to_pylist()]
        assert columns[name] == pytest.approx(seconds, abs=1e-6), name
    assert columns["recall"] == pytest.approx(table["recall"].to_pylist(), abs=1e-5)
    lags = [
        dict(streams)["s1"]["behind"].total_seconds() for streams in table["streams"].to_pylist()
    ]
    assert columns["behind:s1"] == pytest.approx(lags)


def test_what_has_settled_is_what_the_progress_says(live: Live, board: Dashboard) -> None:
    expected = progress_table(ControlLog(live.log))["recall_settled"].to_pylist()
    found = series(board)["columns"]["recall_settled"]
    known = [(f, e) for f, e in zip(found, expected, strict=True) if e is not None]
    assert len(known) > 60
    # The progress knows all batches, the dashboard those of the periods around a batch.
    assert [f for f, _ in known] == pytest.approx([e for _, e in known], abs=0.01)


def test_the_forecast_is_that_of_the_log(live: Live, board: Dashboard) -> None:
    table = forecast_table(ControlLog(live.log))
    recalls = dict(zip(table["k"].to_pylist(), table["recall"].to_pylist(), strict=True))
    found = board.joins[0].now()["forecast"]
    assert len(found["k"]) > 10
    by_k = {round(k.total_seconds(), 6): recall for k, recall in recalls.items()}
    assert found["recall"] == [by_k[round(k, 6)] for k in found["k"]]


def test_later_batches_alone_can_be_asked_for(board: Dashboard) -> None:
    whole = series(board)["columns"]
    later = series(board, "?after=100")["columns"]
    assert later["batch"] == whole["batch"][101:]
    assert series(board, f"?after={whole['batch'][-1]}")["columns"]["batch"] == []


def test_a_stretch_of_time_can_be_asked_for(board: Dashboard) -> None:
    found = series(board, f"?begin={START + 60}&end={START + 91}")["columns"]
    assert found["batch"] == list(range(12, 19))
    assert series(board, "?begin=1&end=2")["columns"]["batch"] == []


def test_fewer_points_show_the_worst_recall_and_all_results(board: Dashboard) -> None:
    whole, few = series(board), series(board, "?points=10")
    assert few["n"] == whole["n"]
    columns = few["columns"]
    assert len(columns["batch"]) == 10
    assert columns["batch"][-1] == whole["columns"]["batch"][-1]
    for name in ("produced", "lost"):
        assert sum(columns[name]) == sum(whole["columns"][name])

    def lowest(values: list[float | None]) -> float:
        return min(value for value in values if value is not None)

    assert lowest(columns["recall"]) == lowest(whole["columns"]["recall"])
    assert max(columns["k"]) == max(whole["columns"]["k"])


def test_a_log_that_grows_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = live_join(tmp_path, monkeypatch, both(5, 2 * MINUTE))
    join = FollowedJoin(ControlLog(live.log))
    join.catch_up()
    assert "batch" not in join.now()
    live.run(MINUTE, batch=5 * SECOND)
    join.catch_up()
    assert join.now()["batch"] == 11
    live.start()
    live.run(2 * MINUTE, batch=5 * SECOND)
    join.catch_up()
    now = join.now()
    assert now["batch"] == 23
    assert [int(run["since"]) for run in now["runs"]] == [START, START + 60]
    assert "s0.a = s1.a" in now["text"]
    assert sum(stream["arrived"] for stream in now["streams"]) == now["totals"]["arrived"]
    assert sum(map(sum, now["delays"]["counts"])) == now["totals"]["arrived"]
    assert sum(now["lost"]["counts"][0]) == now["totals"]["lost"] > 0


def test_a_stalled_stream_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = both(6, 5 * MINUTE)
    live = live_join(tmp_path, monkeypatch, [one, stops(two, MINUTE)])
    join = FollowedJoin(ControlLog(live.run(4 * MINUTE, batch=10 * SECOND).log))
    join.catch_up()
    assert join.now()["stalled"] == "s1"


def test_a_fault_in_the_log_is_shown(tmp_path: Path) -> None:
    log = ControlLog(str(tmp_path))
    log.write("history/000000000000-000000000000.jsonl", b'{"layout": 99}')
    join = FollowedJoin(log)
    join.catch_up()
    assert "reports of layout 99" in join.now()["fault"]


def test_a_long_log_is_shown_in_as_many_points_as_there_is_room_for(
    live: Live, tmp_path: Path
) -> None:
    join = FollowedJoin(long_log(tmp_path, ControlLog(live.log), 1_000))
    join.catch_up()
    assert join.now()["n_batches"] == 1_000
    found = join.series(most=100)
    assert found["n"] == 1_000
    assert len(found["columns"]["k"]) == 100
    settled = [value for value in found["columns"]["recall_settled"] if value is not None]
    assert len(settled) > 80
    assert 0.5 < np.mean(settled) <= 1


def test_ten_thousand_batches_are_reduced_at_once() -> None:
    kinds = {f"{kind}{n}": kind for kind in (LAST, LOWEST, HIGHEST, SUM, MEAN) for n in range(10)}
    columns = Columns(kinds)
    for batch in range(10_000):
        columns.append(dict.fromkeys(kinds, float(batch)))
    began = time.process_time()
    found = columns.between(0, 10_000, 600)
    # It takes some milliseconds; a fifth of a second would be felt.
    assert time.process_time() - began < 0.2
    assert len(found["last0"]) == 600
    assert found["last0"][-1] == found["highest0"][-1] == 9_999
    assert found["lowest0"][0] == 0
    assert found["sum0"].sum() == 9_999 * 5_000
    assert found["mean0"][0] == pytest.approx((found["lowest0"][0] + found["highest0"][0]) / 2)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:80", "127.0.0.1:9", "[::1]:9", "10.1.2.3"]
)
def test_the_machine_itself_is_answered(board: Dashboard, host: str) -> None:
    answer, _ = get(board, "/", host=host)
    assert answer.status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", None, "[", "a b"])
def test_a_name_that_points_here_from_elsewhere_is_refused(
    board: Dashboard, host: str | None
) -> None:
    for path in ("/", "/api/joins", "/metrics"):
        answer, content = get(board, path, host=host)
        assert answer.status in (400, 421)
        assert b"recalljoin_" not in content


def test_a_name_that_was_given_is_answered(live: Live) -> None:
    board = Dashboard([ControlLog(live.log)], names=["Joins.Example"]).start()
    try:
        assert get(board, "/", host="joins.example:8765")[0].status == 200
    finally:
        board.stop()


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd", "/static/../server.py", "/static/%2e%2e/server.py", "/static/",
        "/static//etc/passwd", "/etc/passwd", "/api/joins/7/series", "/api/joins/-1/series",
        "/api/joins/0x0/series", "/api/joins/0", "/api/joins/0/series/..", "/static/..%5cserver.py",
    ],
)  # fmt: skip
def test_no_path_of_a_request_opens_a_file(board: Dashboard, path: str) -> None:
    answer, content = get(board, path)
    assert answer.status == 404
    assert content == b"there is nothing here\n"


@pytest.mark.parametrize("query", ["?after=x", "?points=nan", "?folder=/etc", "?after"])
def test_a_wrong_parameter_is_told(board: Dashboard, query: str) -> None:
    answer, _ = get(board, f"/api/joins/0/series{query}")
    assert answer.status == 400


def test_the_page_may_load_nothing_from_elsewhere(board: Dashboard) -> None:
    for path in ("/", "/api/joins", "/metrics", "/nothing"):
        answer, _ = get(board, path)
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Access-Control-Allow-Origin"] is None
    page = get(board, "/")[1].decode()
    assert "http" not in page.replace("http-equiv", "")


def test_nothing_can_be_changed(board: Dashboard) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert get(board, "/api/joins", method=method)[0].status == 501
    answer, content = get(board, "/", method="HEAD")
    assert (answer.status, content) == (200, b"")


def test_it_listens_on_loopback_unless_told_otherwise(board: Dashboard) -> None:
    assert board.address == f"http://127.0.0.1:{board.port}/"


def test_a_port_in_use_is_told(board: Dashboard, live: Live) -> None:
    with pytest.raises(InvalidSetting, match=r"cannot listen on 127\.0\.0\.1 port \d+: .*--port"):
        Dashboard([ControlLog(live.log)], port=board.port)


def test_no_thread_is_left_behind(live: Live) -> None:
    board = Dashboard([ControlLog(live.log)]).start()
    board.stop()
    assert not [each for each in threading.enumerate() if each.name.startswith("dashboard")]
