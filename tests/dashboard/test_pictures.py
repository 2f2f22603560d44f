"""Pictures, short words, and the view that follows a join."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from contextlib import redirect_stdout
from html import escape
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest

import recalljoin as rj
from recalljoin.dashboard.watching import bars, followed, lines
from recalljoin.errors import InvalidSetting
from recalljoin.spark.control_log import ControlLog
from tests.dashboard.logs import disordered, live_join
from tests.spark.live import MINUTE, SECOND, Live, both, steady

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "SELECT * FROM a [1 SEC], b [1 SEC] WHERE a.x = b.x"


def tables(length: int = 3 * MINUTE) -> dict[str, pa.Table]:
    found = {}
    for name, seed in (("a", 1), ("b", 2)):
        feed = steady(seed, length)
        found[name] = pa.table({"ts": feed.ts, "x": feed.key, "arrival": feed.at})
    return found


@pytest.fixture(scope="module")
def advice() -> rj.Advice:
    return rj.advise(QUERY, tables())


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Live:
    with pytest.MonkeyPatch.context() as patch:
        return disordered(tmp_path_factory.mktemp("log"), patch, minutes=4)


def texts_in(picture: rj.Picture) -> list[str]:
    svg: Any = picture
    root = ET.fromstring(svg._repr_svg_())
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_an_advice_is_shown_in_a_line_and_in_a_small_table(advice: rj.Advice) -> None:
    assert len(repr(advice)) < 200
    assert repr(advice).startswith("<Advice: for a recall of 0.95 recalljoin waits ")
    assert len(repr(advice.slack)) < 100
    shown: Any = advice
    html = shown._repr_html_()
    assert html.count("<tr>") == 8
    assert len(html) < 2000


def test_a_run_is_shown_in_a_line_and_in_a_small_table() -> None:
    record: Any = rj.replay(QUERY, tables(), recall=0.9).adaptation
    assert len(repr(record)) < 250
    assert "policy slack; recall 0.9" in repr(record)
    assert ">mean K</td>" in record._repr_html_()


def test_an_opened_join_is_shown_in_a_line_and_in_a_small_table(live: Live) -> None:
    opened: Any = rj.open(live.log)
    assert "streams s0, s1; batch 47; K " in repr(opened)
    assert "(target 0.95)" in opened._repr_html_()
    assert "s0.a = s1.a" in opened.explain()
    assert "1 cell in 1 group" in opened.explain()
    assert "K is chosen by the policy slack" in opened.explain()


def test_an_advice_is_drawn_with_both_waits(advice: rj.Advice) -> None:
    words = texts_in(rj.plot(advice))
    assert {"K of recalljoin", "delay of withWatermark", "K, or delay (s)"} <= set(words)


def test_a_run_is_drawn_with_its_target() -> None:
    words = texts_in(rj.plot(rj.replay(QUERY, tables(), recall=0.9)))
    assert {"K (s)", "recall", "target"} <= set(words)


def test_a_join_is_drawn_from_its_log(live: Live, tmp_path: Path) -> None:
    words = texts_in(rj.plot(live.log))
    assert {"provisional recall", "settled recall", "results", "lost results"} <= set(words)
    for name in ("a.svg", "a.png"):
        rj.plot(rj.open(live.log)).save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000
    with pytest.raises(InvalidSetting, match=r"saved as '\.svg' or '\.png', got 'a\.gif'"):
        rj.plot(live.log).save("a.gif")


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="a replay with a fixed wait has nothing to draw"):
        rj.plot(rj.replay(QUERY, tables(SECOND), k=0))
    with pytest.raises(InvalidSetting, match="holds nothing that a join has written"):
        rj.plot(tmp_path)
    ControlLog(str(tmp_path)).own("a query")
    with pytest.raises(InvalidSetting, match="holds no batch yet"):
        rj.plot(str(tmp_path))


def test_a_join_is_followed_in_a_few_lines(live: Live) -> None:
    found = {name: (now, before) for name, now, before in lines(followed(live.log))}
    assert set(found) == {
        "wait (K)", "recall", "results", "tuples", "stream s0", "stream s1", "batch"
    }  # fmt: skip
    assert found["batch"][0] == "47"
    assert "target 0.95" in found["recall"][1]
    assert set(found["wait (K)"][1]) <= set("▁▂▃▄▅▆▇█")


def running(live: Live) -> Any:
    """A query as far as it is looked at, which runs until it is told not to."""
    offset = json.dumps({"control_log": live.log})
    sources = {"sources": [{"endOffset": offset}]}
    return SimpleNamespace(isActive=True, name="q", recentProgress=[sources])


def test_watching_goes_on_until_the_query_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = live_join(tmp_path, monkeypatch, both(5, 2 * MINUTE)).run(MINUTE, batch=10 * SECOND)
    query = running(live)
    out = io.StringIO()

    def end() -> None:
        while not out.getvalue():
            time.sleep(0.05)
        live.run(2 * MINUTE, batch=10 * SECOND)
        query.isActive = False

    ends = threading.Thread(target=end)
    with redirect_stdout(out):
        ends.start()
        rj.watch(query, every=0.1)
    ends.join()
    looks = out.getvalue().splitlines()
    assert "batch 5" in looks[0]
    assert "batch 11" in looks[-1]
    # Looks at which nothing had changed are not written down.
    assert len(set(looks)) == len(looks)


def test_watching_may_be_limited_in_time(live: Live) -> None:
    began = time.monotonic()
    with redirect_stdout(io.StringIO()):
        rj.watch(live.log, every=0.05, seconds=0.3)
    assert time.monotonic() - began < 60


def test_a_notebook_shows_a_table_that_is_brought_up_to_date(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    words: list[str] = []

    class Handle:
        def update(self, content: dict[str, str], *, raw: bool) -> None:
            assert raw
            words.append(content["text/plain"])
            shown.append(content["text/html"])
            query.isActive = len(shown) < 3

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        shown.append(content["text/html"])
        return Handle()

    # What a notebook's kernel offers, as far as it is used.
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    query = running(live)
    rj.watch(query, every=0.05)
    # The last look is after the end.
    assert len(shown) == 4
    assert ">wait (K)</td>" in shown[0]
    assert words[0].splitlines()[0].startswith("wait (K)   ")


def test_what_explain_tells_is_shown_line_by_line() -> None:
    table = pa.table({"ts": [1], "x": [7]})
    told = rj.explain(
        "SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.x < b.x", {"a": table, "b": table}
    )
    assert "a.x < b.x" in told
    assert told._repr_html_() == f"<pre>{escape(told)}</pre>"  # type: ignore[attr-defined]
    printed: list[str] = []
    told._repr_pretty_(SimpleNamespace(text=printed.append), False)  # type: ignore[attr-defined]
    assert printed == [told]


def test_bars_stay_within_their_room() -> None:
    assert bars([-5, 0, 10, 99], 0, 10) == "▁▁██"
    assert np.all([len(bars([1.0] * n, 0, 1)) == n for n in (0, 3)])
