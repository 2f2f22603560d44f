"""``recalljoin dashboard``: a page that shows joins while they run, or afterwards."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("control_logs", nargs=-1, required=True, metavar="CONTROL_LOG...")
@click.option(
    "--host", default="127.0.0.1", show_default=True,
    help="Address to listen on. Another than the default lets other machines see the page.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True,
    help="Port to listen on; 0 for any that is free.",
)  # fmt: skip
@click.option(
    "--name", "names", multiple=True, metavar="HOST",
    help="Further host name by which browsers may call the page; may be given several times.",
)  # fmt: skip
def dashboard(control_logs: tuple[str, ...], host: str, port: int, names: tuple[str, ...]) -> None:
    """Show joins on a web page, from their control logs, while they run or afterwards.

    The page follows every join: wait, watermark, recall against its target, results, latency,
    streams, lost results. Metrics for Prometheus are under /metrics. There is no password: whoever
    can reach the address can read the page, but nothing can be changed there.
    """
    from recalljoin.dashboard.server import Dashboard
    from recalljoin.spark.control_log import ControlLog

    for folder in control_logs:
        if Path(folder).is_file():
            message = f"{folder!r} is a file; a control log is a folder"
            raise click.BadParameter(message, param_hint="CONTROL_LOG")
    logs = [ControlLog(folder) for folder in control_logs]
    for log in logs:
        if not log.is_of_a_join():
            click.echo(f"note: {_of_no_join(log.shown)}; a join is waited for", err=True)
    board = Dashboard(logs, host=host, port=port, names=names).start()
    click.echo(f"The dashboard is at {board.address} (Ctrl+C ends it)")
    try:
        board.wait()
    except KeyboardInterrupt:
        board.stop()


def _of_no_join(folder: str) -> str:
    """What is to be said of a folder to which no join has written."""
    place = Path(folder)
    if (place / "offsets").is_dir():
        # Where `recalljoin run` puts the log by default.
        inner = place / "control_log"
        log = repr(str(inner)) if inner.is_dir() else "the folder that is the join's `control_log`"
        return f"{folder!r} is a checkpoint, and no control log; give {log}"
    if place.is_dir() and any(place.iterdir()):
        return f"{folder!r} holds other files, and no control log"
    return f"nothing is in {folder!r} yet"
