"""``recalljoin completion``: lets a shell complete commands, options and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HELP = """\b
  bash   eval "$(recalljoin completion bash)"      in ~/.bashrc
  zsh    eval "$(recalljoin completion zsh)"       in ~/.zshrc
  fish   recalljoin completion fish | source       in ~/.config/fish/config.fish
"""


@click.command(epilog=_HELP)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete the options of this command."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    command = ctx.find_root().command
    click.echo(kind(command, {}, "recalljoin", "_RECALLJOIN_COMPLETE").source())
