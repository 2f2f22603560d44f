"""All numbers of a command, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

_F = TypeVar("_F", bound=Callable[..., Any])


def json_option() -> Callable[[_F], _F]:
    """The option ``--json FILE``."""
    return click.option(
        "--json", "json_file", metavar="FILE", callback=_check_folder,
        help="Write all numbers there; - for stdout.",
    )  # fmt: skip


def _check_folder(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    # Checked before anything is started, so that the numbers of a long run are not lost.
    if value not in (None, "-") and not Path(str(value)).absolute().parent.is_dir():
        message = f"there is no folder for {value!r}"
        raise click.BadParameter(message, ctx, param)
    return value


def write_numbers(numbers: Mapping[str, Any], json_file: str | None) -> bool:
    """Write numbers where they are wanted; return whether standard output holds them alone."""
    if json_file is None:
        return False
    # A line for each number or list is easy to read, and to find with grep.
    lines = [f"{json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in numbers.items()]
    content = "{\n" + ",\n".join(lines) + "\n}"
    if json_file == "-":
        click.echo(content)
        return True
    Path(json_file).write_text(content + "\n", encoding="utf-8")
    return False
