"""The page itself, in a browser."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from recalljoin.dashboard.metrics import metrics_text
from recalljoin.dashboard.server import Dashboard
from recalljoin.dashboard.watching import lines
from recalljoin.quality.told_sources import MOST_TOLD
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


def metrics_of(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    """Labels and values of a metric."""
    return [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]


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
        within = {
            each["share"]: seconds
            for each, seconds in metrics_of(told, "recalljoin_sources_behind_seconds")
        }
        assert within == {
            "0.5": sources["within"]["p50"],
            "0.9": sources["within"]["p90"],
            "0.99": sources["within"]["p99"],
        }
        # Names of sources are no labels: with ten thousand of them, nobody could store that.
        assert not re.search(r'source="', told)
        browser = shown.browser
        browser.open(board.address)
        until(lambda: "The join waits for source 1, which is" in browser.text("#alarms"))
        labels = browser.run("return board.charts.get('sources').series.map((s) => s.label)")
        assert labels == ["slowest", "99 %", "half", "lead"]
        behind, most, half, lead = browser.run(
            "return board.charts.get('sources').chart.data.slice(1)"
        )
        assert most[-1] == pytest.approx(sources["within"]["p99"])
        assert half[-1] == pytest.approx(sources["within"]["p50"])
        assert behind[-1] == pytest.approx(sources["held_for"])
        assert lead[-1] == pytest.approx(sources["lead"])
        names = (
            "[...document.querySelectorAll('#sources tbody tr')].map((r) => r.cells[0].innerText)"
        )
        assert {"1", "2"} <= set(browser.run(f"return {names}"))
        told = browser.run(f"return {names.replace('#sources', '#all-sources')}")
        assert told == [
            "1 the join waits for it",
            *(each["name"] for each in sources["furthest"][1:]),
        ]
        assert len(told) == 10
        # Ten sources are seen at a glance.
        assert browser.run("return document.getElementById('find').hidden")
        assert browser.messages() == []
    finally:
        board.stop()


def many_sources(n: int) -> list[Feed]:
    """Two streams of ``n`` devices each, whose tuples come the later the higher their number is."""
    random = np.random.default_rng(7)
    feeds = []
    for _ in range(2):
        ts = np.sort(random.integers(0, 20 * SECOND, 20 * n))
        device = random.permutation(np.arange(20 * n) % n)
        feeds.append(Feed.of(ts, device % 50, ts + 2000 * device // n, device))
    return feeds


def test_many_sources_are_sorted_and_searched_by_hand(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 300
    live = live_join(tmp_path, monkeypatch, many_sources(n), recall=0.99, source="device")
    live.run(18 * SECOND, batch=SECOND)
    board = Dashboard([ControlLog(live.log)]).start()
    try:
        until(lambda: board.joins[0].now()["is_read"])
        sources = board.joins[0].now()["sources"]
        assert sources["n"] == 2 * n > len(sources["furthest"]) == MOST_TOLD
        browser = shown.browser
        browser.resize(1280, 900)
        browser.open(board.address)
        until(lambda: browser.text("#all-sources tbody") != "")
        told = browser.text("#sources-in-words")
        assert told.startswith("600 sources have a clock. Half of the sources are at most ")
        assert told.endswith("The 400 that are furthest behind are listed.")

        def rows(cell: int) -> list[str]:
            found = browser.run(
                "return [...document.querySelectorAll('#all-sources tbody tr')]"
                f".map((r) => r.cells[{cell}].innerText)"
            )
            assert isinstance(found, list)
            return found

        first = rows(0)
        # Those that are equally far go by their names.
        furthest = sorted(
            sources["furthest"], key=lambda each: (-each["behind"], int(each["name"]))
        )
        assert first == [each["name"] for each in furthest]
        # The slash leads to the field; what is written there is no key of the page.
        browser.press("/")
        for key in "29":
            browser.press(key)
        until(lambda: 0 < len(rows(0)) < 40)
        assert rows(0) == [name for name in first if "29" in name]
        assert len(browser.text("#joins").splitlines()) == 1
        browser.press("t")
        assert rows(0) == ["no source that is listed has “29t” in its name"]
        browser.run(
            "const f = document.getElementById('find-source'); f.value = ''; "
            "f.dispatchEvent(new Event('input'))"
        )
        head = "document.querySelector('#all-sources th[data-by=source]')"
        browser.run(f"{head}.querySelector('button').focus()")
        browser.press("\ue007")  # enter
        until(lambda: rows(0) == sorted(first, key=int))
        assert browser.run(f"return {head}.getAttribute('aria-sort')") == "ascending"
        browser.press("\ue007")
        until(lambda: rows(0) == sorted(first, key=int, reverse=True))
        # New numbers change neither the order nor where one is.
        live.run(19 * SECOND, batch=SECOND)
        until(lambda: board.joins[0].now()["batch"] == 18)
        time.sleep(2.5)
        assert [int(name) for name in rows(0)] == sorted(map(int, rows(0)), reverse=True)
        assert browser.run(f"return document.activeElement.parentNode === {head}")
        assert set(rows(1)) == {"s0", "s1"}
        browser.resize(390, 844)
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        until(lambda: browser.run(wide) <= 0)
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
