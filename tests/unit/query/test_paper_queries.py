"""The three queries of the paper's Sec. VI, as written there (S with a subscript 1 spelled S1)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.query.bound_query import EqualityClass
from recalljoin.query.evaluate import evaluate
from recalljoin.query.expressions import Call, Column, Expression
from recalljoin.query.functions import Functions
from recalljoin.query.text import parse_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

INT = pa.int64()


def key(stream: int, name: str) -> Column:
    return Column(stream, name, INT)


def schema(*columns: str) -> pa.Schema:
    return pa.schema([(column, INT) for column in columns])


def test_two_streams_of_players_closer_than_five_meters() -> None:
    functions = Functions()

    @functions.register
    def dist(
        x1: NDArray[np.float64],
        y1: NDArray[np.float64],
        x2: NDArray[np.float64],
        y2: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        return np.hypot(x1 - x2, y1 - y2)

    text = """SELECT * FROM S1 [5 SEC], S2 [5 SEC] WHERE
        dist(S1.xCoord, S1.yCoord, S2.xCoord, S2.yCoord) < 5"""
    players = pa.schema({"ts": INT, "sID": INT, "xCoord": pa.float64(), "yCoord": pa.float64()})
    bound = parse_query(text, functions=functions).bind({"S1": players, "S2": players})

    assert [(stream.name, stream.window) for stream in bound.streams] == [
        ("S1", 5000),
        ("S2", 5000),
    ]
    assert bound.classes == ()
    assert bound.quality is None
    assert bound.select is None
    (close,) = bound.residual
    assert close.streams == {0, 1}
    assert isinstance(close.expression, Call)
    assert close.expression.args[0].type == pa.float64()

    pairs = {
        (0, "xCoord"): [0.0, 0.0, None],
        (0, "yCoord"): [0.0, 0.0, 0.0],
        (1, "xCoord"): [3.0, 3.0, 3.0],
        (1, "yCoord"): [3.9, 4.0, 4.0],
    }
    found = evaluate(close.expression, lambda s, name: pa.array(pairs[s, name], pa.float64()), 3)
    assert found.to_pylist() == [True, False, None]


def test_three_streams_with_one_common_attribute() -> None:
    text = """SELECT * FROM S1 [5 SEC], S2 [5 SEC], S3 [5 SEC]
        WHERE S1.a1=S2.a1 AND S2.a1=S3.a1"""
    streams = {name: schema("ts", "a1") for name in ("s1", "s2", "s3")}
    bound = parse_query(text).bind(streams)
    members: dict[int, Expression] = {at: key(at, "a1") for at in range(3)}
    assert bound.classes == (EqualityClass(members, INT),)
    assert bound.residual == ()
    assert [stream.window for stream in bound.streams] == [5000] * 3


def test_four_streams_in_a_star() -> None:
    text = """SELECT * FROM S1 [3 SEC], S2 [3 SEC],
                   S3 [3 SEC], S4 [3 SEC]
        WHERE S1.a1=S2.a1 AND S1.a2=S3.a2 AND S1.a3=S4.a3"""
    bound = parse_query(text).bind(
        {
            "S1": schema("ts", "a1", "a2", "a3"),
            "S2": schema("ts", "a1"),
            "S3": schema("ts", "a2"),
            "S4": schema("ts", "a3"),
        }
    )
    assert bound.classes == (
        EqualityClass({0: key(0, "a1"), 1: key(1, "a1")}, INT),
        EqualityClass({0: key(0, "a2"), 2: key(2, "a2")}, INT),
        EqualityClass({0: key(0, "a3"), 3: key(3, "a3")}, INT),
    )
    assert bound.residual == ()
    assert [stream.window for stream in bound.streams] == [3000] * 4


@pytest.mark.parametrize("streams", range(2, 9))
def test_a_chain_of_equalities_is_one_class_for_any_number_of_streams(streams: int) -> None:
    names = [f"s{at}" for at in range(streams)]
    text = (
        "SELECT count(*) FROM "
        + ", ".join(f"{name} [1 SEC]" for name in names)
        + " WHERE "
        + " AND ".join(f"{a}.k = {b}.k" for a, b in pairwise(names))
    )
    bound = parse_query(text).bind({name: schema("ts", "k") for name in names})
    assert [list(found.members) for found in bound.classes] == [list(range(streams))]
    assert bound.counts_only
