"""`bench schema`: the JSON schema of the sweep file."""

from __future__ import annotations

import click


@click.command()
def schema() -> None:
    """Print the JSON schema of the sweep file, for editors.

    An editor that knows it completes keys, shows what each means with its unit and default, and marks mistakes while
    you write. `bench init` puts it beside the sweep files it writes, which name it in their first line. Always JSON, on
    stdout.

    \b
    Example:
      bench schema > schema.json
    """
    from bench.sweep.schema import schema_text

    click.echo(schema_text(), nl=False)
