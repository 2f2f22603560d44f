"""JSON of messages: read as its schema says, or told apart with its text, never silently null."""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from recalljoin.spark.packing import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DDL = "id LONG NOT NULL, x DOUBLE, s STRING, ok BOOLEAN, tags ARRAY<INT>, in STRUCT<n: INT>"
GOOD = [
    '{"id": 1, "x": 2.5, "s": "a", "ok": true, "tags": [1, 2], "in": {"n": 3}}',
    '{"id": -5, "x": null, "s": "", "ok": false, "tags": [], "in": null, "more": [{}]}',
    '  {"s": "\\u00e9\\n}{", "id": 9223372036854775807, "x": 1e3}  ',
]
BAD: list[bytes | None] = [
    None, b"", b" ", b"null", b"3", b'"x"', b"[]", b"{}", b'[{"id": 1}]', b'{"id": 1}{"id": 2}',
    b'{"id": 1} x', b'{"id": 1}, {"id": 2}', b'{"id": 1}, "v": {"id": 2}', b'{"id": 1}} {',
    b'{"id": 1', b'{"id": 1}] [{}', b'{"id": "1x"}', b'{"id": 1.5}',
    b'{"id": 9223372036854775808}', b'{"id": null}', b'{"id": 1, "x": "y"}',
    b'{"id": 1, "ok": 1}', b'{"id": 1, "tags": 1}', b'{"id": 1, "tags": ["a"]}',
    b'{"id": 1, "in": {"n": "z"}}', b'{"id": 1, "in": [1]}', b'{"id": 1, "s": "\xff"}',
    b"\xff\xfe", b'{"id": 1, "tags": [1, 2147483648]}', b'{"id": true}', b'{"id": {}}',
]  # fmt: skip


def decoded(
    spark: SparkSession, values: list[bytes | None], *, ddl: str = DDL
) -> list[dict[str, Any]]:
    """What becomes of messages, in their order."""
    from pyspark.sql import functions as sf
    from pyspark.sql.pandas.types import from_arrow_schema

    from recalljoin.jobs.ddl import schema_of_ddl
    from recalljoin.jobs.decoding import decoded as decode

    numbers = list(range(len(values)))
    frame = spark.createDataFrame(pa.table({"n": numbers, "value": pa.array(values, pa.binary())}))
    schema = from_arrow_schema(schema_of_ddl(ddl))
    beside = {"n": sf.col("n")}
    rows = decode(frame, sf.col("value"), schema, beside=beside, options={})
    return [row.asDict(recursive=True) for row in rows.orderBy("n").collect()]


def test_what_fits_is_read_and_what_does_not_is_told_apart(spark: SparkSession) -> None:
    rows = decoded(spark, [*(text.encode() for text in GOOD), *BAD])
    for text, row in zip(GOOD, rows, strict=False):
        told = json.loads(text)
        assert row[UNREADABLE] is None
        assert {name: row[name] for name in told if name in row} == {
            name: value for name, value in told.items() if name in row
        }
    wrong = [bad for bad, row in zip(BAD, rows[len(GOOD) :], strict=True) if not _is_told(bad, row)]
    assert wrong == []


def _is_told(bad: bytes | None, row: dict[str, Any]) -> bool:
    return bool(row[UNREADABLE] == (bad or b"").decode(errors="replace"))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("TINYINT", ["-128", "127", "null"], ["128", "255", "-129", "256", "1.5"]),
        ("ARRAY<TINYINT>", ["[1, null, -128]", "[]", "null"], ["[1, 200]", "[256]"]),
        ("STRUCT<n: MAP<STRING, TINYINT>>", ['{"n": {"k": 5}}'], ['{"n": {"k": 128}}']),
        ("STRING", [r'"\ud83d\ude00"', r'"\\ud800"', r'"\u00e9"', r'"\\\\"'],
                   [r'"\ud800"', r'"\uDC00"', r'"x\ud800\u0041"', r'"\\\ud800"',
                    r'"\ude00\ud83d"']),
    ],
)  # fmt: skip
def test_values_that_spark_would_change_without_a_word_are_told_apart(
    spark: SparkSession, kind: str, good: list[str], bad: list[str]
) -> None:
    rows = decoded(
        spark, [f'{{"v": {value}}}'.encode() for value in (*good, *bad)], ddl=f"v {kind}"
    )
    for value, row in zip(good, rows, strict=False):
        assert row[UNREADABLE] is None
        assert row["v"] == json.loads(value)
    for value, row in zip(bad, rows[len(good) :], strict=True):
        assert row[UNREADABLE] == f'{{"v": {value}}}'


def fits(text: str) -> bool | None:
    """Whether Python takes a text as the schema says; None where Spark is known to take more."""
    if any(mark in text for mark in ("'", "NaN", "Infinity", "INF", "\x00", "\\")):
        return None
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(told, dict) or any(text.count(f'"{name}"') > 1 for name in _KINDS):
        return None if isinstance(told, dict) else False
    return told.get("id") is not None and all(
        name not in told or told[name] is None or kind(told[name]) for name, kind in _KINDS.items()
    )


def _is_int(value: object, bits: int = 64) -> bool:
    return type(value) is int and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "id": _is_int,
    "x": lambda value: type(value) in (int, float),
    "s": lambda _: True,
    "ok": lambda value: type(value) is bool,
    "tags": lambda value: (
        isinstance(value, list) and all(each is None or _is_int(each, 32) for each in value)
    ),
    "in": lambda value: (
        isinstance(value, dict) and (value.get("n") is None or _is_int(value["n"], 32))
    ),
}


def test_random_texts_are_read_or_told_apart_as_python_does(spark: SparkSession) -> None:
    many = int(os.environ.get("FUZZ_EXAMPLES", "2000"))
    chance = random.Random(os.urandom(8) if "FUZZ_EXAMPLES" in os.environ else 1)
    pieces = ['"id"', ":", "1", "{", "}", "[", "]", ",", '"x"', "2.5", "null", "true", '"s"', " ",
              "-", '"in"', '"n"', '{"id":1}', '"id":1', "e5", '"', "0", '"tags":[1]']  # fmt: skip
    texts = []
    for _ in range(many):
        text = chance.choice(GOOD)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice([*pieces, ""]) + text[at + chance.randrange(3) :]
        texts.append(text)
    rows = decoded(spark, [text.encode() for text in texts])
    expected = [fits(text) for text in texts]
    wrong = [
        (text, fit)
        for text, fit, row in zip(texts, expected, rows, strict=True)
        if fit is not None and fit != (row[UNREADABLE] is None)
    ]
    assert wrong == []
    assert expected.count(True) > many / 50
    assert expected.count(False) > many / 5
