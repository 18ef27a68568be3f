# SPDX-License-Identifier: BSD-3-Clause
"""Element types: the words of problem texts and `--type`, NumPy's types, and the C API's codes.

bfloat16 is that of the package ml_dtypes, which is needed for nothing else. It is imported only
when an array of it is made, and so is NumPy, since plans and machines need only the words. Knows no
arrays.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ElementType:
    """One type of products.

    word      of problem texts, as in "hgemm", and of --type
    name      of the NumPy type that is stored
    real      whether it is not complex
    sum_eps   eps of the type in which sums are kept
    low_eps   eps of the type to which C, or A and B, are rounded in addition; else 0
    codes     fleet_type of A, B and C, and of the arithmetic; empty for s, d, c and z
    """

    word: str
    name: str
    real: bool
    sum_eps: float
    low_eps: float = 0.0
    codes: str = ""

    @property
    def dtype(self) -> np.dtype:
        """Raises ImportError if NumPy has no such type and ml_dtypes is not installed."""
        import numpy as np

        if self.name != "bfloat16":
            return np.dtype(self.name)
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError("bfloat16 needs the package ml_dtypes") from None
        return np.dtype(ml_dtypes.bfloat16)


_F32, _F64 = 2.0**-23, 2.0**-52
TYPES = {
    element.word: element
    for element in (
        ElementType("s", "float32", True, _F32),
        ElementType("d", "float64", True, _F64),
        ElementType("c", "complex64", False, _F32),
        ElementType("z", "complex128", False, _F64),
        ElementType("h", "float16", True, _F32, 2.0**-10, "hs"),
        ElementType("bf16", "bfloat16", True, _F32, 2.0**-7, "bs"),
        ElementType("tf32", "float32", True, _F32, 2.0**-10, "st"),
    )
}
KNOWN = "float16, bfloat16, float32, float64, complex64, complex128"
_BY_NAME = {element.name: element for element in TYPES.values() if element.word != "tf32"}


@functools.lru_cache(maxsize=64)  # NumPy makes a name anew each time, in a microsecond
def of(dtype: np.dtype, tf32: bool = False) -> ElementType | None:
    """The type of products of these numbers; None if they have none.

    tf32: floats may be rounded to TF32. TypeError for other numbers.
    """
    if tf32 and dtype.name != "float32":
        raise TypeError(f"tf32 is a way to multiply float32, not {dtype}")
    return TYPES["tf32"] if tf32 else _BY_NAME.get(dtype.name)
