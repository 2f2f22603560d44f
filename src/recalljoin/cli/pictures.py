"""The option ``--plot FILE``: a picture of somebody's own data, alone or on a page with numbers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from recalljoin.experiments.page import Table

_F = TypeVar("_F", bound="Callable[..., Any]")
_KINDS = (".svg", ".png", ".html")


def picture_option() -> Callable[[_F], _F]:
    """The option ``--plot FILE``."""
    return click.option(
        "--plot", "picture", metavar="FILE", callback=_check_picture,
        help="Draw a picture there, as .svg or .png; as .html with the numbers beside it.",
    )  # fmt: skip


def _check_picture(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    # Checked before anything is started, so that a long run does not end without its picture.
    if value is None:
        return None
    if not value.lower().endswith(_KINDS):
        message = f"a picture is an .svg or a .png file, or an .html page, got {value!r}"
        raise click.BadParameter(message, ctx, param)
    if not Path(value).absolute().parent.is_dir():
        message = f"there is no folder for {value!r}"
        raise click.BadParameter(message, ctx, param)
    if find_spec("matplotlib") is None:
        message = "pictures need matplotlib; call `pip install 'recalljoin[plot]'`"
        raise click.ClickException(message)
    return value


def draw(
    source: object, picture: str | None, *, title: str, text: tuple[str, ...], table: Table
) -> None:
    """Draw an advice or a run, if that is wanted.

    Parameters
    ----------
    source
        What is drawn.
    picture
        File of the picture, or of a page; None if there shall be none.
    title, text, table
        What a page says beside the picture.
    """
    if picture is None:
        return
    from recalljoin.dashboard.pictures import plot
    from recalljoin.experiments.charts import worded
    from recalljoin.experiments.page import Page, Section, as_html

    drawn = plot(source)
    if picture.lower().endswith(".html"):
        section = Section("picture", title, text, worded(drawn.figure, "svg"), table=table)
        page = as_html(Page("recalljoin", "", (), (section,)))
        Path(picture).write_text(page, encoding="utf-8")
        click.echo(f"Page: {picture}", err=True)
    else:
        drawn.save(picture)
        click.echo(f"Picture: {picture}", err=True)
