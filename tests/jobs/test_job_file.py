"""Job files: what they may say, and that all faults are told together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidJob, InvalidQuery, RecallJoinError
from recalljoin.jobs.ddl import schema_of_ddl
from recalljoin.jobs.job_file import parse_job, read_job

ORDERS = """
query = "SELECT * FROM o [5 SEC], p [5 SEC] WHERE o.id = p.order_id WITH RECALL 0.95 OVER 1 MINUTE"
checkpoint = "ck"
[streams.o]
kafka = "localhost:9092"
topic = "orders"
schema = "id LONG, amount DOUBLE, ts TIMESTAMP"
time = "ts"
[streams.p]
folder = "payments"
format = "json"
schema = "order_id LONG NOT NULL, at TIMESTAMP"
time = "at"
[sink]
kafka = "localhost:9092"
topic = "joined"
"""
FOLDER = Path("/jobs")


def faults_of(text: str, **environment: str) -> tuple[str, ...]:
    with pytest.raises(InvalidJob) as caught:
        parse_job(text.encode(), FOLDER, environment)
    return caught.value.faults


def test_a_job_says_where_streams_come_from_and_results_go() -> None:
    job = parse_job(ORDERS.encode(), FOLDER, {})
    assert job.checkpoint == "/jobs/ck"
    assert job.control_log == "/jobs/ck/control_log"
    assert (job.trigger, job.once, job.uses_kafka) == (None, False, True)
    o, p = job.streams["o"], job.streams["p"]
    assert (o.kafka, o.topic, o.time) == ("localhost:9092", "orders", "ts")
    assert o.columns == pa.schema(
        {"id": pa.int64(), "amount": pa.float64(), "ts": pa.timestamp("us", "UTC")}
    )
    assert (p.folder, p.format, p.time) == ("/jobs/payments", "json", "at")
    assert p.schema is not None
    assert not p.schema.field("order_id").nullable
    assert (job.sink.kafka, job.sink.topic) == ("localhost:9092", "joined")


def test_further_keys_have_their_meaning() -> None:
    text = 'trigger = "5 seconds"\ncontrol_log = "s3://bucket/log"\n' + ORDERS
    text = text.replace('ts TIMESTAMP"\ntime = "ts"', 'x INT"\nmessage_time = "ts"')
    text += '[join]\nk = "300 ms"\nmax_ahead = "off"\n[spark]\n"spark.a" = true\n"spark.b" = 2\n'
    job = parse_job(text.encode(), FOLDER, {})
    assert job.trigger == "5000 milliseconds"
    assert job.control_log == "s3://bucket/log"
    assert job.join == {"k": "300 ms", "max_ahead": None}
    assert job.spark == {"spark.a": "true", "spark.b": "2"}
    assert job.streams["o"].time == "ts"
    columns = job.streams["o"].columns
    assert columns is not None
    assert columns.names == ["id", "amount", "x", "ts"]
    text = text.replace('message_time = "ts"', 'message_time = "ts"\nmessage_partition = "part"')
    columns = parse_job(text.encode(), FOLDER, {}).streams["o"].columns
    assert columns is not None
    assert columns.names == ["id", "amount", "x", "ts", "part"]


def test_a_format_of_spark_takes_its_path_as_an_option() -> None:
    place = 'format = "delta"\noptions = { path = "s3://bucket/payments" }'
    text = ORDERS.replace('folder = "payments"\nformat = "json"', place)
    assert text != ORDERS
    p = parse_job(text.encode(), FOLDER, {}).streams["p"]
    assert (p.folder, p.format, p.options) == (None, "delta", {"path": "s3://bucket/payments"})
    with pytest.raises(InvalidJob, match="the option `path` is set by `folder`"):
        parse_job(
            ORDERS.replace('format = "json"', place.replace("delta", "json")).encode(), FOLDER, {}
        )


def test_a_number_alone_is_no_trigger() -> None:
    for trigger in ("5", "true"):
        said = faults_of(f"trigger = {trigger}\n{ORDERS}")
        assert len(said) == 1
        assert said[0].endswith('of what? Write trigger = "5 seconds"')


def test_all_faults_are_told_together_with_what_to_write_instead() -> None:
    text = """
qery = "x"
checkpoint = 3
trigger = "5 bananas"
once = "yes"
query = "SELECT * FROM o [5 SEC], p [5 SEC] WHERE o.id = p.id WITH RECALL 95 OVER 1 MINUTE"
[streams.o]
kafka = "localhost:9092"
tpic = "orders"
schema = "id LON, ts TIMESTAMP"
[streams.q]
folder = "${HOME}/p"
format = "jsn"
[sink]
kafka = "${HOST}"
options = { topic = "x" }
[join]
lat_rows = true
"""
    assert faults_of(text, HOME="/home/me") == (
        "the job file has no `qery`; did you mean `query`?",
        "the environment has no variable `HOST`, which the job file names",
        "stream `q`: `folder` names the variable `HOME`, and would show its value in offsets or "
        "logs; variables may stand in `kafka`, `options` and [spark]",
        "stream `o` has no `tpic`; did you mean `topic`?",
        'stream `o`: `topic` is missing; write topic = "orders"',
        "stream `o`: `schema`: `id LON, ts TIMESTAMP` cannot be read as columns with their types; "
        "did you mean `LONG` by `LON`?",
        'stream `q`: `schema` is missing; write schema = "id LONG, amount DOUBLE, ts TIMESTAMP"',
        "stream `q`: `format` is 'jsn'; did you mean `json`?",
        "sink: the option `topic` is set by `topic`; leave it out",
        'sink: `topic` is missing; write topic = "orders"',
        '`checkpoint` must be a text, got 3; write checkpoint = "checkpoint"',
        "[join] has no `lat_rows`; did you mean `late_rows`?",
        "query: `recall` must be in (0, 1], got 95; write 0.95 for 95 %",
        "`trigger` of '5 bananas': unknown unit `bananas`; write one of ns, us, ms, sec, min, "
        "hour, day, week",
        "`once` must be true or false, got 'yes'; write once = true",
    )


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('checkpoint = "ck"', "", '`checkpoint` is missing; write checkpoint = "checkpoint"'),
        ('query = "', 'query = "x', "query: "),
        ("o.id = p", "o.idd = p", "query: in `o.idd = p.order_id`: stream `o` has no column"),
        ("[streams.p]", "[streams.q]", "the query reads the stream `p`, and nothing says where"),
        ('folder = "payments"', 'kafka = "h:1"\nfolder = "x"\ntopic = "t"', "leave one of them"),
        ('time = "at"', 'time = "att"', "no column `att` for the event time; did you mean `at`?"),
        ('topic = "joined"', 'topic = "joined"\nformat = "json"', "messages of `kafka` are JSON"),
        ("[sink]", "[snk]", "the job has no sink; write [sink] and below it"),
        ('checkpoint = "ck"', 'checkpoint = "ck"\nonce = true\ntrigger = "1 s"', "leave one of"),
        ('time = "ts"', 'message_time = "ts"', "`schema` has `ts` already"),
        ('format = "json"', 'format = "json"\nmessage_time = "t"', "is for `kafka` only"),
        ('time = "ts"', 'time = "ts"\nmessage_partition = "TS"', "`schema` has `TS` already"),
        ('format = "json"', 'format = "json"\nmessage_partition = "p"', "is for `kafka` only"),
        ('checkpoint = "ck"', 'checkpoint = "ck"\nstreams = 3', "no TOML"),
        ('time = "ts"', "message_partition = 3", "must be a text, got 3; write message_partition"),
        ("[streams.o]", "[streams]\no = 1\n[x]", "`streams` must be tables; write [streams.o]"),
        ('topic = "joined"', 'topic = "orders"', "the topic `orders` is what stream `o` reads"),
        (
            "[sink]",
            '[join]\ncells = "2"\n[sink]',
            "[join]: `cells` must be a whole number, got '2'",
        ),
        (
            "[sink]",
            '[join]\nflush = "no"\n[sink]',
            "[join]: `flush` must be True or False, got 'no'",
        ),
        ("[sink]", '[join]\nidle_after = "x"\n[sink]', "[join]: `idle_after` must be a duration"),
        ("[sink]", '[join]\nbuffer_memory = "x"\n[sink]', "[join]: `buffer_memory` must be a size"),
        ("[sink]", "[join]\nrecall = 0.9\n[sink]", "[join] has no `recall`; it stands in query = "),
    ],
)
def test_each_fault_is_named(old: str, new: str, fault: str) -> None:
    text = ORDERS.replace(old, new, 1)
    assert text != ORDERS
    assert any(fault in told for told in faults_of(text)), faults_of(text)


def test_a_folder_is_not_both_stream_and_sink() -> None:
    text = ORDERS.replace('folder = "payments"', 'folder = "x"')
    text = text.partition("[sink]")[0] + '[sink]\nfolder = "x"\n'
    assert faults_of(text) == (
        "sink: the folder is what stream `p` reads; write results elsewhere",
    )


def test_the_streams_of_a_job_may_have_other_names_in_its_query() -> None:
    # A stream of the job is what the query calls the table; it may be read twice.
    text = ORDERS.replace("p [5 SEC] WHERE o.id = p.", "p [5 SEC] AS q WHERE o.id = q.")
    assert text != ORDERS
    assert parse_job(text.encode(), FOLDER, {}).streams["p"].time == "at"
    twice = ORDERS.replace(
        "FROM o [5 SEC], p [5 SEC] WHERE o.id = p.order_id",
        "FROM o [5 SEC] AS a, o [5 SEC] AS b, p [5 SEC] WHERE a.id = b.id AND b.id = p.order_id",
    )
    assert twice != ORDERS
    assert set(parse_job(twice.encode(), FOLDER, {}).streams) == {"o", "p"}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match=r"nowhere.toml' cannot be read: No such file"):
        read_job(tmp_path / "nowhere.toml")


def test_values_of_the_environment_are_filled_in_and_shown_nowhere() -> None:
    text = ORDERS.replace('"localhost:9092"', '"${HOST}:9092"')
    text += 'options = { "kafka.sasl.jaas.config" = "password=${PASSWORD};" }\n'
    job = parse_job(text.encode(), FOLDER, {"HOST": "broker-1", "PASSWORD": "s3cr3t"})
    assert job.kafka_options(job.sink) == {
        "kafka.bootstrap.servers": "broker-1:9092",
        "kafka.sasl.jaas.config": "password=s3cr3t;",
    }
    assert "s3cr3t" not in repr(job)
    assert job.secrets.hide("no login with s3cr3t") == "no login with ${PASSWORD}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x LONG", pa.int64()),
        ("x bigint comment 'a number'", pa.int64()),
        ("x DECIMAL(10,2)", pa.decimal128(10, 2)),
        ("x DECIMAL", pa.decimal128(10, 0)),
        ("x TIMESTAMP_NTZ", pa.timestamp("us")),
        ("x ARRAY<STRUCT<a: INT, b: STRING>>",
         pa.list_(pa.field("element", pa.struct({"a": pa.int32(), "b": pa.string()})))),
        ("x MAP<STRING, DOUBLE>", pa.map_(pa.string(), pa.float64())),
    ],
)  # fmt: skip
def test_a_schema_is_written_as_in_spark(text: str, kind: pa.DataType) -> None:
    assert schema_of_ddl(text).field("x").type == kind


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "there is no column in it"),
        ("id", "`id` is no column with its type"),
        ("id LONG, ID INT", "the column `ID` stands there twice"),
        ("id INT DEFAULT 3", "has more than a type, NOT NULL and a comment"),
        ("id DECIMAL(50)", "is no type that a schema may have; the types are BOOLEAN"),
        ("id INT) PARTITIONED BY (x INT", "is more than columns with their types"),
        ("id LONGG", "did you mean `LONG` by `LONGG`?"),
        ("s STRUCT<x: INT NOT NULL>", "NOT NULL is for columns, and `x` is a field of a STRUCT"),
        ("a " + "ARRAY<" * 600 + "INT" + ">" * 600, "too many brackets"),
    ],
)
def test_a_schema_with_a_fault_is_refused(text: str, fault: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        schema_of_ddl(text)
    assert fault in str(caught.value)


def test_every_error_of_a_job_is_one_of_ours() -> None:
    assert issubclass(InvalidJob, RecallJoinError)
    content: Any = b"\xff"
    with pytest.raises(InvalidJob, match="no TOML"):
        parse_job(content, FOLDER, {})
