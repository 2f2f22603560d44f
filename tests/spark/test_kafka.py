"""Jobs from topic to topic, with a broker of our own: what is read, written, refused and kept."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from recalljoin.errors import DatasetError, InvalidJob, InvalidSetting
from tests.spark.kafka_jobs import PARTITIONS, KafkaJob
from tests.spark.recorded import record

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.broker import Broker

pytestmark = pytest.mark.spark

PASSWORD = "s3cr3t-8d1f"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required password='${PW}';"


def send(spark: SparkSession, broker: Broker, topic: str, values: list[bytes | None]) -> None:
    """Write messages as they are."""
    frame = spark.createDataFrame(
        pa.table({"topic": [topic] * len(values), "value": pa.array(values, pa.binary())})
    )
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.address).save()


def test_the_sink_equals_evaluate_and_shows_no_password(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    import recalljoin as rj
    from recalljoin.experiments import Setup, evaluate
    from recalljoin.jobs.job_file import parse_job
    from recalljoin.jobs.run import looks, start

    kafka = KafkaJob(broker, tmp_path, "equal", with_recall="", rows=40)
    recording = record(2, 8, seed=5)
    assert list(kafka.produce(spark, recording))[-1] == len(recording.tuples)
    bad: list[bytes | None] = [b"{", b'{"ts": "x", "a": 1}', None, b"\xff", b'{"ts":1}{"ts":2}']
    send(spark, broker, "equal-s1", bad)
    text = kafka.text(more="once = true", join='flush = true\nk = "60 ms"\n')
    text = text.replace("maxOffsets", f'"kafka.sasl.jaas.config" = "{LOGIN}", maxOffsets')
    text = text.replace('-joined"\n', f'-joined"\noptions."kafka.sasl.jaas.config" = "{LOGIN}"\n')
    job = parse_job(text.encode(), tmp_path, {"PW": PASSWORD})
    with caplog.at_level(logging.INFO):
        query = start(spark, job)
        told = list(looks(query, job))
    assert query.exception() is None
    assert query.name == "recalljoin"
    # All partitions have messages, and the job took them in several batches.
    assert {each["partition"] for each in kafka.messages(spark, "s1")} == set(range(PARTITIONS))
    assert told[-1].batch >= 3
    # What cannot be read is refused and counted, and its text is kept.
    refused = rj.open(query).refused("s1").collect()
    assert Counter(row.text for row in refused) == Counter(
        ["{", '{"ts": "x", "a": 1}', "", "\ufffd", '{"ts":1}{"ts":2}']
    )
    assert {row.reason for row in refused} == {"unreadable value"}
    # `evaluate` on the same arrivals, ticks and K: each tuple arrives with its batch.
    batches = kafka.batches(spark)
    tables = {}
    for s, name in enumerate(job.streams):
        mine = [
            {**json.loads(row["value"]), "arrival": 1000 * (number + 1)}
            for number, rows in enumerate(batches)
            for row in rows
            if row["stream"] == s and row["value"] and '"place"' in row["value"]
        ]
        tables[name] = spark.createDataFrame(pa.Table.from_pylist(mine)).coalesce(1)
    setup = Setup(
        policy="fixed", k="60 ms", arrival_mode="tick", tick="1 second", batch="1 second",
        cells=2, mode="rows",
    )  # fmt: skip
    out = tmp_path / "evaluated"
    evaluate(
        job.query, tables, setup, spark=spark, arrival="arrival", output=out, truth=False,
        max_ahead=None,
    )  # fmt: skip
    expected = Counter((row.one, row.two) for row in spark.read.parquet(str(out)).collect())
    found = kafka.results(spark)
    assert found == expected
    assert sum(found.values()) > 100
    assert max(found.values()) == 1
    # Nothing that the job has left behind shows the password.
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 10
    assert [path for path in written if PASSWORD.encode() in path.read_bytes()] == []
    assert PASSWORD not in caplog.text + str(query.recentProgress) + repr(job)
    captured = capfd.readouterr()
    assert PASSWORD not in captured.out + captured.err


def results_frame(spark: SparkSession, *numbers: int) -> DataFrame:
    return spark.createDataFrame(pa.table({"n": list(numbers)}))


def test_a_batch_that_is_written_again_is_completed_and_not_repeated(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    from recalljoin.jobs.sink import TopicSink

    kafka = KafkaJob(broker, tmp_path, "again")
    access = {"kafka.bootstrap.servers": broker.address}

    def sink() -> TopicSink:
        """The sink of a driver that has just been started."""
        made = TopicSink(access, {}, "again-joined", "n", str(tmp_path / "log"))
        made.prepare(spark)
        return made

    def written() -> list[int]:
        messages = kafka.messages(spark, "joined")
        return sorted(json.loads(each["value"])["n"] for each in messages)

    sink().write(results_frame(spark, 7, 7), 0)
    # Killed after a part of batch 1; results may be equal, and still are two.
    sink().write(results_frame(spark, 1, 2, 2), 1)
    assert written() == [1, 2, 2, 7, 7]
    for _ in range(2):
        sink().write(results_frame(spark, 1, 1, 2, 2, 2, 3, 7), 1)
        assert written() == [1, 1, 2, 2, 2, 3, 7, 7, 7]
    # A message that somebody else wrote is no result of ours, whatever it holds.
    send(spark, broker, "again-joined", [b'{"n":5}'])
    sink().write(results_frame(spark, 5), 2)
    assert written()[-4:] == [5, 7, 7, 7]
    assert written().count(5) == 2


def test_rows_arrive_in_order_and_at_their_pace_and_are_recorded_with_the_time_kafka_took_them(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    from recalljoin.experiments import Setup, evaluate
    from recalljoin.jobs.job_file import parse_job
    from recalljoin.jobs.record import record as record_topics
    from recalljoin.jobs.sources import from_messages
    from recalljoin.jobs.topics import Topics

    kafka = KafkaJob(broker, tmp_path, "kept")
    recording = record(2, 12, seed=6)
    # 12 ticks of 50 ms are 550 ms from first to last.
    begin = time.monotonic()
    steps = list(kafka.produce(spark, recording, speed=0.5))
    assert time.monotonic() - begin > 1.0
    assert len(steps) >= 2
    assert steps[-1] == len(recording.tuples)
    for s, name in enumerate(("s1", "s2")):
        order = [e.arrival for e in recording.tuples if e.stream == s]
        for partition in range(PARTITIONS):
            mine = [
                json.loads(message["value"])["place"]
                for message in kafka.messages(spark, name)
                if message["partition"] == partition
            ]
            assert mine == sorted(mine, key=order.index)
    send(spark, broker, "kept-s2", [b"no JSON"])
    # Partitions are sources of the first stream.
    text = kafka.text().replace("s1 [100 MS]", "s1 [100 MS SOURCE part]")
    text = text.replace('topic = "kept-s1"', 'topic = "kept-s1"\nmessage_partition = "part"')
    job = parse_job(text.encode(), tmp_path, {})
    paths = record_topics(spark, job, tmp_path / "recorded")
    sent_to = {
        json.loads(each["value"])["place"]: each["partition"]
        for each in kafka.messages(spark, "s1")
    }
    assert {
        row.place: row.part for row in spark.read.parquet(str(paths["s1"])).collect()
    } == sent_to
    rows = {name: spark.read.parquet(str(path)).collect() for name, path in paths.items()}
    for s, name in enumerate(paths):
        sent = Counter(e.arrival for e in recording.tuples if e.stream == s)
        assert Counter(row.place for row in rows[name] if row.place is not None) == sent
        arrivals = [row.arrival for row in rows[name]]
        assert arrivals == sorted(arrivals)
    # The time of a message may be the event time.
    text = (
        kafka.text().replace('"ts LONG, ', '"').replace("options", 'message_time = "ts"\noptions')
    )
    timed = parse_job(text.encode(), tmp_path, {})
    assert timed.streams["s1"].time == "ts"
    messages = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.address)
        .option("subscribe", "kept-s1")
        .load()
    )
    came = from_messages(messages, timed, timed.streams["s1"]).select("place", "ts").collect()
    assert dict(came) == {
        json.loads(each.value)["place"]: each.timestamp for each in messages.collect()
    }
    text = (tmp_path / "recorded" / "query.sql").read_text()
    setup = Setup(recall=0.5, arrival_mode="tick", tick="10 ms", batch="10 ms")
    run = evaluate(text, paths, setup, spark=spark, truth=False, max_ahead=None)
    assert run.refused == {"null time": 1}
    assert run.n_tuples == len(recording.tuples)
    with pytest.raises(DatasetError, match=r"exists already; name another folder"):
        record_topics(spark, kafka.job(), tmp_path / "recorded")
    # Where producers set the time, it says nothing about arrival.
    made = KafkaJob(broker, tmp_path, "made")
    with Topics(spark, made.job().kafka_options(made.job().sink)) as topics:
        for name in ("made-s1", "made-s2"):
            topics.create(name, 1)
            send(spark, broker, name, [b"{}"])
    with pytest.raises(DatasetError, match=r"set message.timestamp.type=LogAppendTime"):
        record_topics(spark, made.job(), tmp_path / "other")


def test_what_is_not_there_is_named(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    from recalljoin.jobs.run import start
    from recalljoin.jobs.topics import Topics

    kafka = KafkaJob(broker, tmp_path, "nowhere")
    with pytest.raises(InvalidJob) as caught:
        start(spark, kafka.job())
    assert caught.value.faults == (
        "stream `s1`: there is no topic `nowhere-s1`; create it, or write to it first",
        "stream `s2`: there is no topic `nowhere-s2`; create it, or write to it first",
    )
    silent = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "500",
              "kafka.request.timeout.ms": "400"}  # fmt: skip
    with (
        pytest.raises(InvalidSetting, match=r"Kafka at 127.0.0.1:1 does not answer"),
        Topics(spark, silent) as topics,
    ):
        topics.exists("x")
