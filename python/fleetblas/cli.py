# SPDX-License-Identifier: BSD-3-Clause
"""The command line: its commands, and how exceptions are reported. Knows no option of a command.

Exit status: 0 done, 1 failed, 2 wrong usage; `fleetblas run` has the status of its command.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from . import __version__, _native
from .commands import common

COMMANDS = ("run", "bench", "plan", "trace", "report", "reproduce", "probe", "doctor", "paths")
USAGE_STATUSES = ("bad_option", "bad_argument")
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        sys.stderr.write(f"{self.prog}: {message} (see {self.prog} --help)\n")
        sys.exit(2)


class _Unusable:
    """A command whose module needs NumPy, if NumPy is not installed: it only says so."""

    TAKES_PROGRAM = True
    EXAMPLE = "It needs NumPy: pip install numpy"

    def __init__(self, name: str):
        self.__doc__ = f"Not usable here: {name} needs NumPy."

    def add_arguments(self, parser) -> None:
        parser.add_argument("words", nargs=argparse.REMAINDER)

    def execute(self, arguments) -> int:
        raise common.Failure("NumPy is needed for this and not installed: pip install numpy")


def _module_of(name: str):
    try:
        return importlib.import_module(f".commands.{name}", __package__)
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        return _Unusable(name)


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fleetblas",
        description="Matrix products on all the devices of a node.",
        epilog="example: fleetblas run --backend host --devices 4 -- python script.py\n\n"
        "Every command has its own --help, with an example.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fleetblas {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = _module_of(name)
        summary = " ".join(module.__doc__.strip().partition("\n\n")[0].split())
        command = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=module.EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(command)
        command.set_defaults(module=module, parser=command)
    return parser


def split_command(words: list[str]) -> tuple[list[str], list[str] | None]:
    """Our arguments, and those after the first `--`, which belong to another program."""
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


def main(words: list[str] | None = None) -> int:
    ours, program = split_command(sys.argv[1:] if words is None else list(words))
    arguments, unknown = make_parser().parse_known_args(ours)
    arguments.program = program
    try:
        _refuse(unknown, arguments)
        if program is not None and not getattr(arguments.module, "TAKES_PROGRAM", False):
            raise common.UsageError(f"{arguments.command} takes no command after --")
        return arguments.module.execute(arguments)
    except common.UsageError as error:
        arguments.parser.error(str(error))
    except _native.Error as error:
        if error.status in USAGE_STATUSES:
            arguments.parser.error(str(error))
        return _failed(arguments, error)
    except BrokenPipeError:
        # The reader has closed our output; Python must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (common.Failure, MemoryError, OSError, ImportError) as error:
        return _failed(arguments, error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _refuse(unknown: list[str], arguments) -> None:
    """Words that no argument takes are a mistake, perhaps a program without its `--`."""
    if not unknown or isinstance(arguments.module, _Unusable):
        return
    hint = getattr(arguments.module, "PROGRAM_HINT", None)
    is_program = hint and arguments.program is None and not unknown[0].startswith("-")
    reason = f"unrecognized arguments: {' '.join(unknown)}"
    raise common.UsageError(f"{reason}: {hint}" if is_program else reason)


def _failed(arguments, error: BaseException) -> int:
    reason = " ".join(str(error).split()) or type(error).__name__
    sys.stderr.write(f"fleetblas {arguments.command}: {reason}\n")
    return 1
