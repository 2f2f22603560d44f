"""Driver and broker killed with signal 9 while streams are replayed: the sink does not show it.

One kill each here; `make soak` does twenty and five in a replay of ten minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.kafka_jobs import KafkaJob
from tests.spark.recorded import record
from tests.spark.soak_kafka import Hunt

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.timeout(600)
def test_a_kill_of_the_driver_and_one_of_the_broker_lose_nothing_and_repeat_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    kafka = KafkaJob(broker, tmp_path, "kills", rows=100_000)
    hunt = Hunt(spark, kafka, record(2, 24, seed=9), tick_ms=250)
    found = hunt.run(drivers=1, brokers=1)
    hunt.check(found)
    assert (hunt.driver_kills, hunt.broker_kills) == (1, 1)
    assert sum(found.values()) > 300
