# SPDX-License-Identifier: BSD-3-Clause
"""The error statuses of the library as exceptions. Knows no library."""


class Error(Exception):
    """A call that the library refused or could not complete; `status` is its word for the
    reason."""

    def __init__(self, message: str, status: str = "internal"):
        super().__init__(message)
        self.status = status


class BadArgument(Error, ValueError):
    """A size, flag or pointer is illegal; nothing was touched."""


class NoMemory(Error, MemoryError):
    """Neither the devices nor the host have enough memory; the output is untouched."""


class DeviceFailed(Error, RuntimeError):
    """The device that holds an operand was lost, or a device failed and the CPU could not complete
    the output, which is undefined."""


class Unreachable(Error, RuntimeError):
    """No route between two places that must exchange data."""


class BadOption(Error, ValueError):
    """An option has an invalid value."""


class BadFile(Error, ValueError):
    """A machine file is missing, damaged or of another schema."""


class Unsupported(Error, NotImplementedError):
    """A combination that this version does not support."""
