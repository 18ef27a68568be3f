# SPDX-License-Identifier: BSD-3-Clause
"""Python imports this module first in programs that `fleetblas run` starts: it has the linear
algebra of NumPy and SciPy watched for, and then hands over to the sitecustomize of the program."""

import os
import sys


def _hand_over():
    """Imports the next sitecustomize on the path, as if this one were not there."""
    ours = sys.modules[__name__]
    try:
        import _fleetblas_hook

        _fleetblas_hook.watch()
    except Exception:
        pass  # a program runs as if nothing were here
    # The folder is of no use to the program; `site` has made entries absolute.
    folder = os.path.dirname(__file__)
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    del sys.modules[__name__]
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, ours)


_hand_over()
