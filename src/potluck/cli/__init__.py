"""The command line. Exit codes: 0 done, 2 bad input, 1 failure, 130 interrupted."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from potluck.cli.compare import compare
from potluck.cli.data import data
from potluck.cli.export import export
from potluck.cli.report import report
from potluck.cli.run import run
from potluck.cli.show import describe, list_tables
from potluck.cli.skew import skew
from potluck.errors import BadInputError, RunError
from potluck.version import __version__

BAD_INPUT, FAILURE, INTERRUPTED = 2, 1, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="potluck")
def cli() -> None:
    """Federated learning when clients differ: run any method on any skew, and see which one helps."""


for command in (run, compare, report, export, list_tables, describe, data, skew):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; a user's mistake is one sentence, not a traceback."""
    try:
        code = cli.main(args=arguments, prog_name="potluck", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_INPUT)
    except BadInputError as error:
        _say(str(error))
        sys.exit(BAD_INPUT)
    except RunError as error:
        _say(str(error))
        sys.exit(FAILURE)
    except (KeyboardInterrupt, click.Abort) as error:
        _say(str(error) or "interrupted; a run goes on with --resume")
        sys.exit(INTERRUPTED)
    except OSError as error:
        _say(f"{error.filename or 'system'}: {error.strerror or error}")
        sys.exit(FAILURE)
    sys.exit(code if isinstance(code, int) else 0)


def _say(text: str) -> None:
    click.echo(f"potluck: {text}", err=True)
