"""``recalljoin dashboard``: a page that shows joins while they run, or afterwards."""

from __future__ import annotations

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

    logs = [ControlLog(folder) for folder in control_logs]
    for log in logs:
        if not log.is_of_a_join():
            click.echo(f"note: nothing is in {log.shown!r} yet; its join is waited for", err=True)
    board = Dashboard(logs, host=host, port=port, names=names).start()
    click.echo(f"The dashboard is at {board.address} (Ctrl+C ends it)")
    try:
        board.wait()
    except KeyboardInterrupt:
        board.stop()
