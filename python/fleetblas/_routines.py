# SPDX-License-Identifier: BSD-3-Clause
"""The routines: their words, flags, sizes and operands, in the order in which BLAS has them.

What BLAS calls B in trmm and trsm is C here: it is what is updated. Knows no arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._errors import BadArgument

LETTERS = {"side": "lr", "uplo": "lu", "diag": "nu", "transa": "ntc", "transb": "ntc"}


@dataclass(frozen=True)
class Routine:
    """One routine, a row of the table.

    flags, sizes   those that it has, in the order of its arguments
    types          the words of those it exists in (see _types)
    has_b          whether there is an A and a B besides C
    symmetric      A is, or Hermitian, and one triangle of it is stored
    triangular     A is, and there is no beta: C is the other factor, and becomes the result
    triangle       of C one is computed
    by_itself      op(A) times a transpose, with one flag for both
    twice          and the same with A and B exchanged
    hermitian      conjugated where others are transposed; the diagonal is real
    real           the scalars that are real even for complex types
    """

    word: str
    flags: tuple[str, ...]
    sizes: str
    types: tuple[str, ...] = tuple("sdcz")
    has_b: bool = True
    symmetric: bool = False
    triangular: bool = False
    triangle: bool = False
    by_itself: bool = False
    twice: bool = False
    hermitian: bool = False
    real: tuple[str, ...] = ()

    @property
    def operands(self) -> str:
        return "abc" if self.has_b else "ac"

    @property
    def turned(self) -> str:
        """What a factor by itself is turned with."""
        return "c" if self.hermitian else "t"

    @property
    def flop_share(self) -> float:
        """Multiply-adds, as a part of m*n*k."""
        return 0.5 if self.triangular or (self.triangle and not self.twice) else 1.0

    def letters(self, flag: str) -> str:
        """What a flag may be."""
        return "n" + self.turned if self.by_itself and flag == "transa" else LETTERS[flag]

    def edges(self, m=None, n=None, k=None, side: str = "l") -> tuple[int, int, int]:
        """m, n and k with those that it has not: n x n has m = n, and an A on one side k = m or n.

        BadArgument where one is missing, or given and another.
        """
        given = {"m": m, "n": n, "k": k}
        if any(given[name] is None for name in self.sizes):
            *others, last = self.sizes
            raise BadArgument(f"give size, or {', '.join(others)} and {last}", "bad_argument")
        if self.triangle:
            given["m"] = n
        if self.symmetric or self.triangular:
            given["k"] = m if side == "l" else n
        for name, edge in (("m", m), ("k", k)):
            if edge not in (None, given[name]):
                raise BadArgument(f"{self.word} has no {name} of its own", "bad_argument")
        return given["m"], given["n"], given["k"]

    def shapes(self, m: int, n: int, k: int, flags: dict) -> dict[str, tuple[int, int]]:
        """Of the operands as they are stored."""
        if self.symmetric or self.triangular:
            found = {"a": (k, k), "b": (m, n)}
        else:
            found = {"a": (m, k) if flags["transa"] == "n" else (k, m)}
            turned = flags.get("transb", "n") != "n"
            found["b"] = found["a"] if self.by_itself else (n, k) if turned else (k, n)
        found["c"] = (m, n)
        return {name: found[name] for name in self.operands}

    def places(self, place: str) -> list[str]:
        """A word per operand; of A,B,C the B that it has not is left out."""
        words = place.split(",")
        if len(words) == 3 and not self.has_b:
            del words[1]
        if len(words) != len(self.operands):
            wanted = "three words, as in h,h,0" if self.has_b else "two words, as in h,0"
            raise BadArgument(f"place: {place!r} is not {wanted}", "bad_argument")
        return words


_BY_ITSELF = {"flags": ("uplo", "transa"), "sizes": "nk", "triangle": True, "by_itself": True}
_SIDED = {"flags": ("side", "uplo"), "sizes": "mn", "symmetric": True}
_TRIANGULAR = {"flags": ("side", "uplo", "transa", "diag"), "sizes": "mn", "has_b": False}
_COMPLEX = {"types": tuple("cz"), "hermitian": True}
ROUTINES = {
    routine.word: routine
    for routine in (
        Routine("gemm", ("transa", "transb"), "mnk", (*"sdcz", "h", "bf16", "tf32")),
        Routine("gemmt", ("uplo", "transa", "transb"), "nk", triangle=True),
        Routine("symm", **_SIDED),
        Routine("hemm", **_SIDED, **_COMPLEX),
        Routine("syrk", **_BY_ITSELF, has_b=False),
        Routine("herk", **_BY_ITSELF, **_COMPLEX, has_b=False, real=("alpha", "beta")),
        Routine("syr2k", **_BY_ITSELF, twice=True),
        Routine("her2k", **_BY_ITSELF, **_COMPLEX, twice=True, real=("beta",)),
        Routine("trmm", **_TRIANGULAR, triangular=True),
        Routine("trsm", **_TRIANGULAR, triangular=True),
    )
}
