"""Topics of Kafka: whether they are there, and how far they go.

Spark's connector brings Kafka's own client in Java, and takes its settings from the same options as
the sources and the sink. So no second client, with settings of its own, is needed in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

from recalljoin.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_PREFIX: Final = "kafka."


class Topics:
    """The topics of one broker; closed at the end of a ``with``.

    Parameters
    ----------
    spark
        A session with Spark's connector to Kafka.
    options
        Options of Spark that say how the broker is reached; those that begin with ``kafka.`` are
        handed to Kafka's client.

    Raises
    ------
    InvalidSetting
        When the session has no connector, or the broker does not answer.
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._servers = options[f"{_PREFIX}bootstrap.servers"]
        settings = jvm.java.util.Properties()
        for name, value in options.items():
            if name.startswith(_PREFIX):
                settings.setProperty(name.removeprefix(_PREFIX), value)
        try:
            self._admin: Any = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
        except (Py4JError, TypeError) as error:
            if isinstance(error, Py4JJavaError):
                raise self._silent(error) from None
            raise InvalidSetting(no_connector()) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def exists(self, topic: str) -> bool:
        """Whether there is such a topic."""
        return bool(self._asked(lambda: self._admin.listTopics().names().get().contains(topic)))

    def create(
        self, topic: str, partitions: int | None = None, *, append_time: bool = False
    ) -> None:
        """Create a topic, with as many partitions as the broker likes unless told.

        With ``append_time``, the time of a message is the time at which the broker took it.
        """
        empty = self._jvm.java.util.Optional.empty
        wanted = empty() if partitions is None else self._jvm.java.util.Optional.of(partitions)
        kind = self._jvm.org.apache.kafka.clients.admin.NewTopic
        made = kind(topic, wanted, empty())
        if append_time:
            said = self._jvm.java.util.Map.of("message.timestamp.type", "LogAppendTime")
            made = made.configs(said)
        topics = self._jvm.java.util.Collections.singleton(made)
        self._asked(lambda: self._admin.createTopics(topics).all().get())

    def ends(self, topic: str) -> dict[str, int]:
        """The offset that the next message of each partition will have."""
        jvm = self._jvm
        names = jvm.java.util.Collections.singletonList(topic)
        told = self._asked(lambda: self._admin.describeTopics(names).allTopicNames().get())
        latest = jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        asked = jvm.java.util.HashMap()
        for partition in told.get(topic).partitions():
            place = jvm.org.apache.kafka.common.TopicPartition(topic, partition.partition())
            asked.put(place, latest)
        found = self._asked(lambda: self._admin.listOffsets(asked).all().get())
        return {
            str(each.getKey().partition()): int(each.getValue().offset())
            for each in found.entrySet()
        }

    def _asked(self, question: Any) -> Any:
        try:
            return question()
        except Py4JJavaError as error:
            raise self._silent(error) from None

    def _silent(self, error: Py4JJavaError) -> InvalidSetting:
        reason = str(error.java_exception.toString()).rpartition("Exception: ")[2]
        message = f"Kafka at {self._servers} does not answer as it should: {reason}"
        return InvalidSetting(message)


def no_connector() -> str:
    """What to do in a session without Spark's connector to Kafka."""
    return (
        "this Spark session has no connector to Kafka; name its jars with `--jars`, or write below "
        '[spark]: "spark.jars.packages" = "org.apache.spark:spark-sql-kafka-0-10_2.13:" and the '
        "version of Spark"
    )
