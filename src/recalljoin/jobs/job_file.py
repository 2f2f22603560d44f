"""Job files: a join with its sources and its sink as TOML, checked as a whole before Spark starts.

Every fault is collected, and all are told in one message.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from recalljoin.errors import InvalidJob, InvalidQuery, InvalidSetting
from recalljoin.jobs.ddl import schema_of_ddl
from recalljoin.jobs.model import FILE_FORMATS, Job, JobStream, Sink
from recalljoin.jobs.secrets import Secrets, names_in
from recalljoin.query.durations import in_unit, nanoseconds
from recalljoin.query.spelling import listed, way_out
from recalljoin.query.text import parse_query
from recalljoin.spark.options import RunSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recalljoin.query.model import Query

_TOP: Final = (
    "query", "checkpoint", "control_log", "trigger", "once", "streams", "sink", "join", "spark",
)  # fmt: skip
_PLACE: Final = ("kafka", "topic", "folder", "format", "options")
_MESSAGE: Final = ("message_time", "message_partition")
_STREAM: Final = (*_PLACE, "schema", "time", *_MESSAGE)
_SINK: Final = (*_PLACE, "key")
_SET_ELSEWHERE: Final = {"control_log", "tick", "learn_from"}
_JOIN: Final = (
    "emit",
    *(field.name for field in dataclasses.fields(RunSettings) if field.name not in _SET_ELSEWHERE),
)
_IN_THE_QUERY: Final = (
    "recall", "period", "interval", "min_wait", "max_wait", "initial_wait", "null_precision",
    "window", "on", "how", "select",
)  # fmt: skip
_CAN_BE_OFF: Final = ("max_ahead", "max_buffered", "buffer_memory")
_OWN_OPTIONS: Final = {
    "kafka.bootstrap.servers": "`kafka`",
    "subscribe": "`topic`",
    "subscribepattern": "`topic`",
    "assign": "`topic`",
    "topic": "`topic`",
    "path": "`folder`",
    "checkpointlocation": "`checkpoint`",
    "columnnameofcorruptrecord": "nothing: rows that cannot be read are refused and counted",
    "mode": "nothing: rows that cannot be read are refused and counted",
}
"""Options of Spark that the keys of a job file stand for."""
_EXAMPLES: Final = {
    "query": 'query = "SELECT * FROM o [5 SEC], p [5 SEC] WHERE o.id = p.order_id '
    'WITH RECALL 0.95 OVER 1 MINUTE"',
    "checkpoint": 'checkpoint = "checkpoint"',
    "control_log": 'control_log = "log"',
    "trigger": 'trigger = "5 seconds"',
    "once": "once = true",
    "kafka": 'kafka = "localhost:9092"',
    "topic": 'topic = "orders"',
    "folder": 'folder = "orders"',
    "format": 'format = "parquet"',
    "schema": 'schema = "id LONG, amount DOUBLE, ts TIMESTAMP"',
    "time": 'time = "ts"',
    "message_time": 'message_time = "ts"',
    "message_partition": 'message_partition = "part"',
    "key": 'key = "id"',
}


def read_job(path: str | Path, environment: Mapping[str, str] = os.environ) -> Job:
    """Read a job file.

    Parameters
    ----------
    path
        The file. Paths in it are relative to its folder.
    environment
        The variables that the file may name.

    Raises
    ------
    InvalidJob
        With every fault that shows without Spark.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        message = f"the job file {str(path)!r} cannot be read: {error.strerror}"
        raise InvalidJob(message) from error
    return parse_job(content, Path(path).absolute().parent, environment)


def parse_job(content: bytes, folder: Path, environment: Mapping[str, str]) -> Job:
    """The job that the content of a file describes; ``folder`` is where its paths begin.

    Raises
    ------
    InvalidJob
        With every fault that shows without Spark.
    """
    try:
        told: dict[str, Any] = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"the job file is no TOML: {error}"
        raise InvalidJob(message) from error
    return _Reading(folder, environment).read(told)


class _Reading:
    """Goes through a job file and collects what it finds, right or wrong."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._faults: list[str] = []

    def read(self, told: dict[str, Any]) -> Job:
        self._refuse_unknown("the job file", told, _TOP)
        secrets = self._secrets(told)
        streams = {
            name: self._stream(name, table)
            for name, table in self._tables(told, "streams", _EXAMPLES["kafka"]).items()
        }
        sink = self._sink(told)
        checkpoint = self._path(self._text(told, "checkpoint", needed=True)) or ""
        log = self._path(self._text(told, "control_log")) or f"{checkpoint}/control_log"
        join = self._join(told)
        query = self._query(told, streams, join)
        job = Job(
            query=query,
            streams=streams,
            sink=sink,
            checkpoint=checkpoint,
            control_log=log,
            trigger=self._trigger(told),
            once=self._flag(told, "once"),
            join=join,
            spark=self._settings(told, "spark", "[spark]"),
            secrets=secrets,
        )
        if job.once and job.trigger is not None:
            self._fault("`trigger` says when the next batch comes, and `once` ends after the rows "
                        "that are there; leave one of them out")  # fmt: skip
        self._faults += job.circles()
        if self._faults:
            raise InvalidJob(self._faults)
        return job

    def _fault(self, message: str) -> None:
        self._faults.append(message)

    def _refuse_unknown(self, where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for name in table:
            if name not in known:
                self._fault(f"{where} has no `{name}`; {way_out(name, known, known_as='keys')}")

    def _text(
        self, table: Mapping[str, Any], name: str, where: str = "", *, needed: bool = False
    ) -> str | None:
        value = table.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if name in table:
            self._fault(f"{where}`{name}` must be a text, got {value!r}; write {_EXAMPLES[name]}")
        elif needed:
            self._fault(f"{where}`{name}` is missing; write {_EXAMPLES[name]}")
        return None

    def _flag(self, told: Mapping[str, Any], name: str) -> bool:
        value = told.get(name, False)
        if not isinstance(value, bool):
            self._fault(f"`{name}` must be true or false, got {value!r}; write {_EXAMPLES[name]}")
        return value is True

    def _tables(self, told: Mapping[str, Any], name: str, example: str) -> dict[str, Any]:
        """The tables within a table, such as ``[streams.o]``."""
        tables = told.get(name, {})
        if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
            self._fault(f"`{name}` must be tables; write [{name}.o] and below it {example}")
            return {}
        return tables

    def _settings(self, table: Mapping[str, Any], name: str, where: str) -> dict[str, str]:
        """Options for Spark, as texts."""
        given = table.get(name, {})
        if not isinstance(given, dict):
            self._fault(f"{where} must be a table of options, got {given!r}")
            return {}
        options: dict[str, str] = {}
        for option, value in given.items():
            if isinstance(value, bool):
                options[option] = str(value).lower()
            elif isinstance(value, str | int | float):
                options[option] = str(value)
            else:
                quoted = f'"{option}" = "..."'
                self._fault(f"{where}: `{option}` must be a text, got {value!r}; write {quoted}")
        return options

    def _path(self, path: str | None) -> str | None:
        if path is None or "://" in path:
            return path
        return str(self._folder / path)

    def _secrets(self, told: Mapping[str, Any]) -> Secrets:
        values: dict[str, str] = {}
        for name in dict.fromkeys(names_in(told)):
            value = self._environment.get(name)
            if value is None:
                self._fault(f"the environment has no variable `{name}`, which the job file names")
            values[name] = value or ""
        for where, value in _shown_values(told):
            for name in names_in(value):
                self._fault(
                    f"{where} names the variable `{name}`, and would show its value in offsets or "
                    "logs; variables may stand in `kafka`, `options` and [spark]"
                )
        return Secrets(values)

    def _place(self, table: Mapping[str, Any], where: str) -> dict[str, Any]:
        """What source and sink have in common: a topic, a folder, or a format."""
        names = ("kafka", "topic", "folder", "format")
        place = {name: self._text(table, name, where) for name in names}
        options = self._settings(table, "options", f"{where}`options`")
        kinds = [name for name in ("kafka", "folder") if name in table]
        for option in options:
            own = _OWN_OPTIONS.get(option.lower())
            # A format of Spark's own, such as `delta`, is told by an option where its data are.
            if own is not None and (kinds or option.lower() != "path"):
                self._fault(f"{where}the option `{option}` is set by {own}; leave it out")
        if len(kinds) > 1:
            self._fault(f"{where}there is `kafka` and `folder`; leave one of them out")
        elif "kafka" in table and "topic" not in table:
            self._fault(f"{where}`topic` is missing; write {_EXAMPLES['topic']}")
        elif "kafka" in table and "format" in table:
            self._fault(f"{where}messages of `kafka` are JSON; leave `format` out")
        elif not kinds and "topic" in table:
            self._fault(f"{where}`kafka` is missing; write {_EXAMPLES['kafka']}")
        elif not kinds and "format" not in table:
            self._fault(
                f"{where}there is no `kafka`, no `folder` and no `format`; "
                f"write {_EXAMPLES['kafka']}, or {_EXAMPLES['folder']}"
            )
        if not kinds and place["format"] == "kafka":
            self._fault(f"{where}instead of `format` write {_EXAMPLES['kafka']} and a `topic`")
        if "folder" in table:
            place["format"] = place["format"] or "parquet"
            place["folder"] = self._path(place["folder"])
        return place | {"options": options}

    def _stream(self, name: str, table: dict[str, Any]) -> JobStream:
        where = f"stream `{name}`: "
        self._refuse_unknown(f"stream `{name}`", table, _STREAM)
        place = self._place(table, where)
        schema = self._schema(table, where)
        of_message: dict[str, Any] = {name: self._text(table, name, where) for name in _MESSAGE}
        needs = "kafka" in table or ("folder" in table and place["format"] != "parquet")
        if needs and "schema" not in table:
            self._fault(f"{where}`schema` is missing; write {_EXAMPLES['schema']}")
        for role, column in of_message.items():
            if column is not None and "kafka" not in table:
                self._fault(f"{where}`{role}` is for `kafka` only; leave it out")
        if place["folder"] and place["format"] not in FILE_FORMATS:
            known = way_out(str(place["format"]), FILE_FORMATS, known_as="formats of a folder")
            self._fault(f"{where}`format` is {place['format']!r}; {known}")
        time = self._text(table, "time", where) or of_message["message_time"] or "ts"
        if schema is not None:
            known_names = [field.name for field in schema]
            for role, column in of_message.items():
                if column is None:
                    continue
                if column.lower() in (each.lower() for each in known_names):
                    self._fault(
                        f"{where}`{role}` is a column of its own, and `schema` has `{column}` "
                        "already; give it another name"
                    )
                known_names.append(column)
            if time.lower() not in (each.lower() for each in known_names):
                told = way_out(time, known_names, known_as="columns")
                self._fault(
                    f"{where}there is no column `{time}` for the event time; {told} Name the "
                    "column in `time`, or take the time of the message: "
                    f"{_EXAMPLES['message_time']}"
                )
        return JobStream(**place, schema=schema, time=time, **of_message)

    def _schema(self, table: Mapping[str, Any], where: str) -> Any:
        text = self._text(table, "schema", where)
        if text is None:
            return None
        try:
            return schema_of_ddl(text)
        except InvalidQuery as error:
            self._faults += [f"{where}`schema`: {fault}" for fault in error.faults]
            return None

    def _sink(self, told: Mapping[str, Any]) -> Sink:
        table = told.get("sink")
        if not isinstance(table, dict):
            example = f"write [sink] and below it {_EXAMPLES['folder']}"
            self._fault(f"the job has no sink; {example}, or {_EXAMPLES['kafka']} and a `topic`")
            return Sink(options={})
        self._refuse_unknown("the sink", table, _SINK)
        key = self._text(table, "key", "sink: ")
        if key is not None and "kafka" not in table:
            self._fault("sink: `key` is the key of messages in Kafka; leave it out")
        return Sink(**self._place(table, "sink: "), key=key)

    def _trigger(self, told: Mapping[str, Any]) -> str | None:
        value = told.get("trigger")
        if isinstance(value, int):
            self._fault(f"`trigger` is {value!r} of what? Write {_EXAMPLES['trigger']}")
        elif value is not None:
            try:
                return f"{in_unit(nanoseconds(value, name='trigger'), 'ms')} milliseconds"
            except InvalidQuery as error:
                self._faults += error.faults
        return None

    def _join(self, told: Mapping[str, Any]) -> dict[str, Any]:
        given = told.get("join", {})
        if not isinstance(given, dict):
            self._fault(f"[join] must be a table of options, got {given!r}")
            return {}
        for name in [name for name in given if name in _IN_THE_QUERY]:
            self._fault(f"[join] has no `{name}`; it stands in {_EXAMPLES['query']}")
        others = {name: value for name, value in given.items() if name not in _IN_THE_QUERY}
        self._refuse_unknown("[join]", others, _JOIN)
        known = {name: value for name, value in given.items() if name in _JOIN}
        options: dict[str, Any] = {
            n: None if n in _CAN_BE_OFF and v == "off" else v for n, v in known.items()
        }
        try:
            RunSettings(**{name: value for name, value in options.items() if name != "emit"})
        except InvalidSetting as error:
            self._fault(f"[join]: {error}")
        return options

    def _query(
        self, told: Mapping[str, Any], streams: Mapping[str, JobStream], join: Mapping[str, Any]
    ) -> str:
        text = self._text(told, "query", needed=True)
        if text is None:
            return ""
        times = {name: stream.time for name, stream in streams.items()}
        try:
            emit = join.get("emit", "ordered")
            if self._reads_all(parse_query(text, emit=emit), streams):
                self._bind(parse_query(text, time=times, emit=emit), streams, join)
        except InvalidQuery as error:
            self._faults += [f"query: {fault}" for fault in error.faults]
        return text

    def _reads_all(self, query: Query, streams: Mapping[str, JobStream]) -> bool:
        """Whether the query reads the streams that are described, and no others."""
        n_faults = len(self._faults)
        by_lower = {name.lower() for name in streams}
        read = {name.lower() for s in query.streams for name in (s.name, s.table or s.name)}
        for stream in query.streams:
            if not {stream.name.lower(), (stream.table or stream.name).lower()} & by_lower:
                self._fault(
                    f"the query reads the stream `{stream.name}`, and nothing says where it comes "
                    f"from; write [streams.{stream.name}] and below it {_EXAMPLES['kafka']}"
                )
        for name in streams:
            if name.lower() not in read:
                named = listed([stream.name for stream in query.streams])
                self._fault(f"the query does not read the stream `{name}`; it joins {named}")
        return len(self._faults) == n_faults

    def _bind(
        self, query: Query, streams: Mapping[str, JobStream], join: Mapping[str, Any]
    ) -> None:
        """Check columns and types, if all are known and Spark computes none of them."""
        schemas = {name: stream.columns for name, stream in streams.items()}
        if self._faults or any(schema is None for schema in schemas.values()):
            return
        if not any(query.spark_columns(schemas).values()):
            query.bind(schemas, time_unit=join.get("time_unit", "ms"))


def _shown_values(told: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The values that end up in offsets, names of files or logs, with their place."""
    shown = [(f"`{n}`", v) for n, v in told.items() if n not in ("streams", "sink", "spark")]
    ends = [("sink", told.get("sink"))]
    streams = told.get("streams")
    if isinstance(streams, dict):
        ends += [(f"stream `{name}`", table) for name, table in streams.items()]
    for where, table in ends:
        if isinstance(table, dict):
            shown += [
                (f"{where}: `{n}`", v) for n, v in table.items() if n not in ("kafka", "options")
            ]
    return shown
