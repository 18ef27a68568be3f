# SPDX-License-Identifier: BSD-3-Clause
"""Python imports this module first in programs that `fleetblas run` starts: it has the linear
algebra of NumPy and SciPy watched for, and then hands over to the sitecustomize of the program."""

import sys


def _hand_over():
    """Imports the next sitecustomize on the path, as if this one were not there."""
    ours = sys.modules[__name__]
    try:
        import _fleetblas_hook

        _fleetblas_hook.watch()
        _fleetblas_hook.leave_path()
    except Exception:
        return  # a program runs as if nothing were here
    del sys.modules[__name__]
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, ours)


_hand_over()
