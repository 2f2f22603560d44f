"""Whatever stands in a job file: it is a job, or an error of ours names its faults."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from recalljoin.errors import InvalidJob
from recalljoin.jobs.job_file import _Reading, parse_job
from tests.fuzz.mutations import ODD, mutated
from tests.jobs.test_job_file import FOLDER, ORDERS

KEYS = (
    "query", "checkpoint", "control_log", "trigger", "once", "streams", "sink", "join", "spark",
    "kafka", "topic", "folder", "format", "options", "schema", "time", "message_time",
    "message_partition", "key", "o",
    "p", "emit", "k", "time_unit", "flush", "late_rows", "path",
)  # fmt: skip
EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "kafka" / "job.toml"
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), ODD, st.text(max_size=8),
    st.sampled_from(("o [5 SEC]", "id LONG, ts LONG", "ts", "json", "5 seconds", "localhost:9092",
                     "SELECT * FROM o [5 SEC], p [5 SEC] WHERE o.id = p.id", "${HOME}", "eager")),
)  # fmt: skip
TABLES = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
        ),
        max_leaves=12,
    ),
    max_size=9,
)


@given(st.one_of(st.binary(), mutated([ORDERS, EXAMPLE.read_text()]).map(
    lambda text: text.encode(errors="replace"))))  # fmt: skip
def test_a_text_is_a_job_or_refused(content: bytes) -> None:
    with suppress(InvalidJob):
        parse_job(content, FOLDER, {"HOME": "/home/me"})


@given(TABLES)
@example({"streams": {"o": {"message_partition": None}}})
def test_tables_of_any_shape_are_a_job_or_refused(told: dict[str, Any]) -> None:
    with suppress(InvalidJob):
        _Reading(FOLDER, {"HOME": "/home/me"}).read(told)
