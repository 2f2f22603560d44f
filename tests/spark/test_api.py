"""How a join is asked for: its options, and what is said about wrong ones."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import recalljoin as rj
from recalljoin.query.quality import Quality
from recalljoin.spark.options import RunSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"


def options_of(call: Any) -> dict[str, Any]:
    """Options of a function with their defaults."""
    parameters = inspect.signature(call).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


@pytest.mark.parametrize("call", [rj.join, rj.sql])
def test_every_setting_of_a_run_is_an_option_with_the_same_default(call: Any) -> None:
    options = options_of(call)
    assert {each.name: each.default for each in fields(RunSettings)}.items() <= options.items()


def test_the_target_has_the_same_defaults_as_that_of_a_query() -> None:
    options = options_of(rj.join)
    target = {each.name: each.default for each in fields(Quality)}
    assert options["recall"] is None
    named = target.keys() & options.keys() - {"recall"}
    assert len(named) == 7
    assert {name: options[name] for name in named} == {name: target[name] for name in named}


@pytest.mark.parametrize("call", [rj.join, rj.sql])
def test_help_describes_every_option(call: Any) -> None:
    text = inspect.getdoc(call) or ""
    heads = re.findall(r"^([a-z_]+(?:, [a-z_]+)*)$", text, flags=re.MULTILINE)
    described = {name for head in heads for name in head.split(", ")}
    assert options_of(call).keys() - described == set()
    assert "**" not in text


def test_the_page_on_spark_has_a_row_for_every_option() -> None:
    table = DOCS.read_text(encoding="utf-8").partition("## Options")[2].partition("\n##")[0]
    rows = {name for row in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
            for name in re.findall(r"`(\w+)`", row)}  # fmt: skip
    assert rows == options_of(rj.join).keys() - {"on", "select", "functions"}


@pytest.mark.parametrize(
    ("unknown", "message"),
    [
        ({"recal": 0.9}, "`join` has no option `recal`; did you mean `recall`?"),
        (
            {"idle_afer": 1, "cell": 2},
            "`join` has no option `idle_afer`; did you mean `idle_after`?; "
            "`join` has no option `cell`; did you mean `cells`?",
        ),
    ],
)
def test_an_unknown_option_is_answered_with_the_one_that_was_meant(
    unknown: dict[str, Any], message: str
) -> None:
    with pytest.raises(rj.InvalidSetting) as error:
        rj.join(**unknown)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"cells": 1.5, "groups": "2"},
            "`cells` must be a whole number, got 1.5; write for example 4; "
            "`groups` must be a whole number, got '2'; write for example 4",
        ),
        ({"cells": True}, "`cells` must be a whole number, got True"),
        ({"late_rows": "no", "flush": 1}, "`late_rows` must be True or False, got 'no'; write"),
        ({"name": ""}, "`name` must be a name, got ''; write for example 'orders'"),
        ({"name": None}, "`name` must be a name, got None"),
        ({"control_log": 5}, "`control_log` must be the path of a folder, got 5"),
        ({"control_log": ""}, "`control_log` must be the path of a folder, got ''"),
        ({"policy": 5}, "`policy` must be the name of a policy, or a function that makes one"),
        ({"policy_options": [1]}, "`policy_options` must be a dictionary of options by name"),
        ({"tick": "x"}, "`tick` must be a duration, got 'x'"),
        ({"groups": 0}, "`groups` must be 1 or more, got 0"),
        ({"hot_keys": "on"}, "`hot_keys` must be 'auto', 'off' or keys by column, got 'on'"),
        ({"hot_keys": ["o.id"]}, "`hot_keys` must be 'auto', 'off' or keys by column, got ['o"),
    ],
)
def test_an_option_of_another_kind_is_refused_by_its_name(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(rj.InvalidSetting) as error:
        RunSettings(**options)
    assert str(error.value).startswith(message)


def test_the_folder_of_a_control_log_may_be_a_path(tmp_path: Path) -> None:
    path: Any = tmp_path
    assert RunSettings(control_log=path).control_log == str(tmp_path)


@pytest.mark.parametrize("wrong", [5, []])
def test_a_condition_is_text(wrong: Any) -> None:
    frame: Any = object()
    with pytest.raises(rj.InvalidSetting, match=r"^`on` must be SQL as text, got "):
        rj.join(rj.Stream("a", frame), rj.Stream("b", frame), on=wrong, k=0)
    with pytest.raises(rj.InvalidSetting, match=r"^`frames` must be a dictionary"):
        rj.sql("SELECT * FROM a [1 s], b [1 s]", wrong, k=0)


def test_what_is_said_of_a_stream_or_in_the_text_is_no_option() -> None:
    settings: dict[str, Any] = {"window": 5, "recall": 0.9}
    with pytest.raises(rj.InvalidSetting, match=r"`join` has no option `window`; it is said of ea"):
        rj.join(**settings)
    with pytest.raises(rj.InvalidSetting) as error:
        rj.sql("SELECT", {}, **settings)
    in_the_text = (
        "it stands in the text: SELECT ... FROM o [5 SEC], p [5 SEC] WHERE ... WITH RECALL"
    )
    assert str(error.value) == (
        f"`sql` has no option `window`; {in_the_text}; `sql` has no option `recall`; {in_the_text}"
    )


def test_an_unknown_option_like_no_other_is_answered_with_all_there_are() -> None:
    settings: dict[str, Any] = {"zzz": 1}
    with pytest.raises(rj.InvalidSetting, match="`sql` has no option `zzz`; known options: `time`"):
        rj.sql("SELECT", {}, **settings)


def test_what_is_no_stream_or_has_no_data_is_refused_together() -> None:
    streams: list[Any] = [[], rj.Stream("p", window=5)]
    with pytest.raises(rj.InvalidSetting) as error:
        rj.join(*streams, on="o.id = p.id", recall=0.9)
    assert str(error.value) == (
        "input 1 of a join must be a stream, got list; write rj.Stream('s1', frame, "
        "window='5 seconds'); stream `p` has no data; write its DataFrame after its name: "
        "rj.Stream('p', frame, window='5 seconds')"
    )


@pytest.mark.spark
def test_a_join_without_windows_is_refused_with_every_other_fault(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate").load()
    streams = [rj.Stream(name, frame, time="timestamp") for name in "ab"]
    with pytest.raises(rj.InvalidQuery) as error:
        rj.join(*streams, on="a.value = b.valeu", recall=0.9)
    first, second, third = error.value.faults
    assert "`valeu`" in first
    assert second == "stream `a` has no window; write `a [5 SEC]` or window='5 seconds'"
    assert third == "stream `b` has no window; write `b [5 SEC]` or window='5 seconds'"


@pytest.mark.spark
def test_a_join_of_dataframes_can_be_explained_before_it_is_made(spark: SparkSession) -> None:
    live = spark.readStream.format("rate").load()
    recorded = spark.range(3).selectExpr("id AS value", "current_timestamp() AS timestamp")
    query = rj.Query(
        streams=[
            rj.Stream("a", live, time="timestamp", window="5 seconds"),
            rj.Stream("b", recorded, time="timestamp", window="1 minute"),
        ],
        condition="a.value = b.value",
    )
    told = rj.explain(query)
    assert "a.value = b.value  (int64)" in told
    text = "SELECT * FROM a [5 SEC], b [1 MIN] WHERE a.value = b.value"
    assert rj.explain(text, {"a": live, "b": recorded}, time="timestamp") == told


@pytest.mark.spark
def test_a_plan_says_which_stream_is_routed_where(spark: SparkSession, tmp_path: Path) -> None:
    live = spark.readStream.format("rate").load()
    joined = rj.join(
        rj.Stream("orders", live, time="timestamp", window="5 seconds"),
        rj.Stream("payments", live.toDF("t.s", "value"), time="t.s", window="5 seconds"),
        on="orders.value = payments.value",
        k=0,
        control_log=str(tmp_path / "log"),
    )
    plan = joined._jdf.queryExecution().analyzed().toString()
    assert "MapInArrow route_orders(timestamp" in plan
    assert "MapInArrow route_payments(" in plan
