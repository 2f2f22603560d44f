"""What a run may be asked for, and what is said when it may not."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

pytest.importorskip("pyspark", reason="experiments run on Spark")

from recalljoin.errors import InvalidSetting
from recalljoin.experiments import Setup
from recalljoin.query.quality import Quality
from recalljoin.query.text import parse_query

QUERY = parse_query("SELECT * FROM a [5 SEC], b [5 SEC] WITH RECALL 0.8 OVER 2 MINUTES")


def test_equal_setups_are_the_same_key() -> None:
    one, two = (
        Setup(recall=0.9, options=(("share", 0.9),)),
        Setup(recall=0.9, options=(("share", 0.9),)),
    )
    assert {one: 1}[two] == 1
    assert one != Setup(recall=0.9)


def test_what_the_setup_says_comes_before_what_the_query_says() -> None:
    assert Setup().target(QUERY) == Quality(recall=0.8, period="2 MINUTES")
    assert Setup(recall=0.9).target(QUERY) == Quality(recall=0.9, period="2 MINUTES")
    plain = parse_query("SELECT * FROM a [5 SEC], b [5 SEC]")
    assert Setup(period="10 s").target(plain) == Quality(period="10 s")


def test_micro_batches_are_for_several_cells_unless_asked_for() -> None:
    assert Setup(arrival_mode="tick").by_batch is None
    assert Setup(arrival_mode="tick", cells=2).by_batch == "5 s"
    assert Setup(arrival_mode="tick", batch="1 s").by_batch == "1 s"
    assert Setup(batch="1 s").by_batch is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policy": "fixed"}, "policy 'fixed' needs the slack to use; give `k`"),
        ({"policy": "max", "k": 10}, "`k` is for the policy 'fixed'; 'max' chooses its own"),
        ({"policy": "least"}, "`policy` must be 'eqsel', 'fixed', .* or 'slack', got 'least'"),
        ({"mode": "sum"}, "`mode` must be 'count' or 'rows', got 'sum'"),
        ({"arrival_mode": "now"}, "`arrival_mode` must be 'tuple' or 'tick', got 'now'"),
        ({"cells": 0}, "`cells` must be 1 or more, got 0"),
        ({"cells": 2}, "`cells` must be 1 where tuples arrive one by one, got 2"),
        ({"tick": "5 us"}, "`tick` must be 1 ms or longer, got '5 us'"),
        ({"batch": 0}, "`batch` must be 1 ms or longer, got 0"),
        ({"policy": "fixed", "k": "soon"}, "`k` must be a duration, got 'soon'"),
    ],
)
def test_faults_name_the_setting_and_the_rule(given: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        Setup(**given)  # type: ignore[arg-type]


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InvalidSetting, match=r"`mode` must .*; `tick` must .*; `cells` must"):
        Setup(mode="sum", tick=0, cells=0)  # type: ignore[arg-type]


def test_a_setup_is_told_in_json() -> None:
    setup = Setup(policy="fixed", k=timedelta(seconds=1), options=(("k", 1),))
    content = json.loads(json.dumps(setup.to_json()))
    assert content["policy"] == "fixed"
    assert content["k"] == "0:00:01"
    assert content["options"] == {"k": 1}
