"""The page itself, in a browser."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from recalljoin.dashboard.metrics import metrics_text
from recalljoin.dashboard.server import Dashboard
from recalljoin.dashboard.watching import lines
from recalljoin.spark.control_log import ControlLog
from tests.dashboard.browser import Browser, chromium, until
from tests.dashboard.logs import START, disordered, live_join, stops
from tests.spark.live import MINUTE, SECOND, Feed, Live, both
from tests.spark.test_sources import devices

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHARTS = [
    "recall", "wait", "rates", "lost", "forecast", "delays", "cells", "latency", "watermark",
    "behind", "memory", "stages",
]  # fmt: skip


class Shown:
    """A dashboard with two joins, one of them restarted and the other stalled."""

    def __init__(self, board: Dashboard, browser: Browser, grows: Live) -> None:
        self.board, self.browser, self.grows = board, browser, grows

    def load(self) -> Browser:
        """The page, fresh."""
        self.browser.resize(1280, 900)
        self.browser.open(self.board.address)
        until(lambda: self.n_charts() == len(CHARTS))
        return self.browser

    def n_charts(self) -> int:
        return int(self.browser.run("return document.querySelectorAll('.u-over').length"))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with (
        chromium(tmp_path_factory.mktemp("browser")) as browser,
        pytest.MonkeyPatch.context() as patch,
    ):
        first = disordered(tmp_path_factory.mktemp("first"), patch)
        one, two = both(6, 8 * MINUTE)
        feeds = [one, stops(two, MINUTE)]
        second = live_join(tmp_path_factory.mktemp("second"), patch, feeds)
        second.run(4 * MINUTE, batch=10 * SECOND)
        board = Dashboard([ControlLog(first.log), ControlLog(second.log)]).start()
        until(lambda: all(join.now()["is_read"] for join in board.joins))
        yield Shown(board, browser, second)
        board.stop()


def points(browser: Browser, chart: str) -> int:
    """How many points a chart has."""
    found = browser.run(f"return board.charts.get({chart!r}).chart.data[0].length")
    return int(found)


def edges(browser: Browser, chart: str = "recall") -> tuple[float, float]:
    """Between which times a chart is shown."""
    x = f"board.charts.get({chart!r}).chart.scales.x"
    low, high = browser.run(f"return [{x}.min, {x}.max]")
    return low, high


def test_every_chart_is_drawn_and_the_browser_has_nothing_to_complain_of(shown: Shown) -> None:
    browser = shown.load()
    ids = browser.run("return [...document.querySelectorAll('#charts .card')].map((c) => c.id)")
    assert [each.removeprefix("card-") for each in ids] == CHARTS
    inked = browser.run(
        "return [...document.querySelectorAll('#charts canvas')].map((c) => "
        "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v > 0))"
    )
    assert inked == [True] * len(CHARTS)
    assert points(browser, "recall") == 120
    assert browser.messages() == []


def test_misses_are_marked_and_what_is_provisional_is_told_from_what_has_settled(
    shown: Shown,
) -> None:
    browser = shown.load()
    labels = browser.run("return board.charts.get('recall').series.map((s) => s.label)")
    assert labels == ["target", "provisional", "settled", "missed"]
    data = browser.run("return board.charts.get('recall').chart.data.slice(1)")
    target, provisional, settled, missed = data
    wrong = [r is not None and r < t for r, t in zip(settled, target, strict=True)]
    assert [each is not None for each in missed] == wrong
    assert 0 < sum(wrong) < len(wrong)
    # The newest batches have not settled.
    assert settled[-1] is None
    assert provisional[-1] is not None


def test_what_is_wrong_stands_on_top(shown: Shown) -> None:
    browser = shown.load()
    tabs = browser.text("#joins").splitlines()
    assert len(tabs) == 2
    assert "s1 has stalled" in tabs[1]
    browser.press("2")
    until(lambda: "Everything waits for stream s1" in browser.text("#alarms"))
    assert "stalled" in browser.text("#streams")
    browser.press("1")
    until(lambda: "stalled" not in browser.text("#streams"))


def test_the_source_that_holds_the_join_is_named(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not shown.load().run("return document.getElementById('card-sources')")
    feeds = [devices(seed, length=2 * MINUTE, silences=10) for seed in (2, 3)]
    late = feeds[0].at.copy()
    # Device 1 of the first stream falls silent and has not come back.
    late[(feeds[0].device == 1) & (feeds[0].ts > 100 * SECOND)] += MINUTE
    feeds[0] = Feed.of(feeds[0].ts, feeds[0].key, late, feeds[0].device)
    live = live_join(tmp_path, monkeypatch, feeds, recall=0.99, source="device")
    live.run(107 * SECOND, batch=SECOND)
    board = Dashboard([ControlLog(live.log)]).start()
    try:
        until(lambda: board.joins[0].now()["is_read"])
        sources = board.joins[0].now()["sources"]
        assert sources["held_by"] == "1"
        assert sources["lead"] < sources["held_for"] < 8
        told = metrics_text(board.joins)
        assert f'recalljoin_held_by_source_seconds{{join="recalljoin",log="{live.log}"}} ' in told
        assert ("source 1", "the join waits for it") in [
            (name, more) for name, _, more in lines(board.joins[0])
        ]
        browser = shown.browser
        browser.open(board.address)
        until(lambda: "The join waits for source 1, which is" in browser.text("#alarms"))
        behind, lead = browser.run("return board.charts.get('sources').chart.data.slice(1)")
        assert behind[-1] == pytest.approx(sources["held_for"])
        assert lead[-1] == pytest.approx(sources["lead"])
        names = (
            "[...document.querySelectorAll('#sources tbody tr')].map((r) => r.cells[0].innerText)"
        )
        assert {"1", "2"} <= set(browser.run(f"return {names}"))
        behind = browser.run(f"return {names.replace('#sources', '#behind')}")
        assert behind == [each["name"] for each in sources["furthest"]]
        assert behind[0] == "1"
        assert browser.messages() == []
    finally:
        board.stop()


def test_one_zooms_by_dragging_and_by_keys_and_comes_back(shown: Shown) -> None:
    browser = shown.load()
    whole = edges(browser)
    assert whole == pytest.approx((START, START + 595), abs=1)
    browser.drag("#card-recall .u-over", 0.5, 0.75)
    until(lambda: edges(browser)[0] > START + 200)
    low, high = edges(browser)
    assert (low, high) == pytest.approx((START + 297, START + 446), abs=15)
    # All charts over time show the same stretch.
    assert edges(browser, "wait") == pytest.approx((low, high))
    browser.press("+")
    until(lambda: edges(browser)[1] - edges(browser)[0] < 0.6 * (high - low))
    browser.press("\ue012")  # the arrow to the left
    until(lambda: edges(browser)[0] < low + 40)
    browser.press("0")
    until(lambda: edges(browser) == pytest.approx(whole, abs=1))


def test_new_batches_come_by_themselves_unless_the_page_is_paused(shown: Shown) -> None:
    browser = shown.load()
    browser.press("2")
    until(lambda: "Everything waits" in browser.text("#alarms"))
    before = points(browser, "recall")
    browser.press(" ")
    assert browser.text("#pause") == "Go on"
    shown.grows.run(shown.grows.now + 20 * SECOND, batch=10 * SECOND)
    time.sleep(2.5)
    assert points(browser, "recall") == before
    browser.press(" ")
    until(lambda: points(browser, "recall") == before + 2)
    shown.grows.run(shown.grows.now + 10 * SECOND, batch=10 * SECOND)
    until(lambda: points(browser, "recall") == before + 3)


def test_light_and_dark(shown: Shown) -> None:
    browser = shown.load()
    background = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(background)
    browser.press("t")
    until(lambda: browser.run(background) != light)
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    until(lambda: shown.n_charts() == len(CHARTS))
    browser.press("t")


def test_joins_of_one_name_are_told_apart_by_their_folders(shown: Shown) -> None:
    browser = shown.load()
    named = """
        const before = board.joins;
        board.joins = arguments[0].map(([name, folder]) => ({ name, folder }));
        const names = board.joins.map(nameOf);
        board.joins = before;
        return names;
    """

    def names(*joins: tuple[str, str]) -> list[str]:
        return list(browser.run(named, joins))

    assert names(("orders", "/a/log"), ("clicks", "/b/log")) == ["orders", "clicks"]
    assert names(("j", "/x/one/"), ("j", "/x/two")) == ["one", "two"]
    assert names(("j", "/a/log"), ("j", "/b/log"), ("k", "/c")) == ["a/log", "b/log", "k"]
    assert names(("j", "log"), ("j", "/b/log")) == ["log", "b/log"]


@pytest.mark.parametrize("width", [390, 1400])
def test_the_table_of_streams_is_not_cut_off(shown: Shown, width: int) -> None:
    browser = shown.load()
    browser.resize(width, 900)
    cut = """
        const table = document.querySelector("#streams");
        return table.scrollWidth - table.parentElement.clientWidth;
    """
    until(lambda: bool(browser.text("#streams")))
    assert browser.run(cut) <= 0


def test_it_fits_a_phone(shown: Shown) -> None:
    browser = shown.load()
    browser.resize(390, 844)
    browser.open(shown.board.address)
    until(lambda: shown.n_charts() == len(CHARTS))
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.run(wide) <= 0
    assert browser.run("return document.querySelector('#charts .u-wrap').clientWidth") < 390


def test_help_lists_the_keys(shown: Shown) -> None:
    browser = shown.load()
    browser.press("?")
    until(lambda: browser.run("return document.getElementById('help').open"))
    assert "pause, go on" in browser.text("#help")


def test_each_chart_says_in_words_what_it_shows(shown: Shown) -> None:
    browser = shown.load()
    words = browser.run(
        "return [...document.querySelectorAll('.plot')].map((p) => p.getAttribute('aria-label'))"
    )
    assert words[0].startswith("Recall: target 0.9500, provisional ")
    assert all(words)


def test_the_dot_of_the_forecast_is_at_a_wait_longer_than_any_that_was_needed(
    shown: Shown,
) -> None:
    # A join whose tuples all came in time has a curve of one point, and still waits.
    curve = "{k: [0], recall: [1]}"
    browser = shown.load()
    assert browser.run(f"return reaching({curve}, 100)") == {"k": [0, 100], "recall": [1, 1]}
    assert browser.run(f"return present(reaching({curve}, 100), 100)") == [None, 1]
    assert browser.run(f"return reaching({curve}, 0)") == {"k": [0], "recall": [1]}


def test_small_and_large_numbers_can_be_told_apart_on_axes(shown: Shown) -> None:
    numbers = [0, 0.0031, 0.004, 0.5, 2.25, 1234, 2_500_000]
    told = shown.load().run("return arguments[0].map(count)", numbers)
    assert told == ["0", "0.0031", "0.004", "0.5", "2.25", "1,234", "2.50 M"]
