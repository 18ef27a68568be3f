# SPDX-License-Identifier: BSD-3-Clause
"""The routines: their words, flags, sizes and operands, in the order of BLAS and LAPACK.

ROUTINES are those of level 3, VECTORS those of levels 1 and 2, EVERY has both; LAPACK has
factorizations and what is solved by them, KNOWN all. B of trmm and trsm in BLAS is C here, the
matrix that is updated. Knows no arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._errors import BadArgument

LETTERS = {"side": "lr", "uplo": "lu", "diag": "nu", "transa": "ntc", "transb": "ntc"}


def listed(names) -> str:
    """ "m, n and k"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def is_cyclic(place) -> bool:
    """Whether a place is meant as a block-cyclic one, which the library reads."""
    return isinstance(place, str) and place.startswith("c")


@dataclass(frozen=True)
class Routine:
    """One routine, a row of the table.

    flags, sizes   in the order of its arguments
    types          words of the types for which it exists (see _types)
    has_b          it has an A and a B besides C
    symmetric      A is symmetric or Hermitian, and one triangle of it is stored
    triangular     A is triangular, and C is both the other factor and the result, without beta
    triangle       one triangle of C is computed
    by_itself      op(A) is multiplied by a transpose, with one flag for both factors
    twice          a second product has A and B exchanged
    hermitian      transposes are conjugated, and the diagonal is real
    real           scalars that are real even for complex types
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

    without = ""  # sizes that are 1

    @property
    def operands(self) -> str:
        """The operands that have a place."""
        return "abc" if self.has_b else "ac"

    @property
    def names(self) -> str:
        """The names of these operands in texts."""
        return self.operands

    @property
    def matrices(self) -> str:
        """The operands that have a leading dimension; vectors have an increment."""
        return self.operands

    @property
    def scalars(self) -> tuple[str, ...]:
        return ("alpha",) if self.triangular else ("alpha", "beta")

    def named(self, letter: str) -> str:
        """The name with a type: "dgemm"."""
        return letter + self.word

    @property
    def turned(self) -> str:
        """The flag that transposes a factor multiplied by itself."""
        return "c" if self.hermitian else "t"

    @property
    def flop_share(self) -> float:
        """Multiply-adds as a share of m*n*k."""
        return 0.5 if self.triangular or (self.triangle and not self.twice) else 1.0

    def multiply_adds(self, m: int, n: int, k: int) -> float:
        return self.flop_share * m * n * k

    def letters(self, flag: str) -> str:
        """The letters that a flag may have."""
        return "n" + self.turned if self.by_itself and flag == "transa" else LETTERS[flag]

    def edges(self, m=None, n=None, k=None, side: str = "l") -> tuple[int, int, int]:
        """m, n and k, completed: n x n has m = n, and with a side k is m or n.

        BadArgument if one is missing, or contradicts another.
        """
        given = {"m": m, "n": n, "k": k}
        if any(given[name] is None for name in self.sizes):
            raise BadArgument(f"give size, or {listed(self.sizes)}", "bad_argument")
        if self.triangle:
            given["m"] = n
        if self.symmetric or self.triangular:
            given["k"] = m if side == "l" else n
        given.update({name: 1 for name in self.without})
        for name, edge in (("m", m), ("k", k)):
            if edge not in (None, given[name]):
                raise BadArgument(f"{self.word} has no {name} of its own", "bad_argument")
        return given["m"], given["n"], given["k"]

    def shapes(self, m: int, n: int, k: int, flags: dict) -> dict[str, tuple[int, int]]:
        """The shapes of the operands as stored."""
        if self.symmetric or self.triangular:
            found = {"a": (k, k), "b": (m, n)}
        else:
            found = {"a": (m, k) if flags["transa"] == "n" else (k, m)}
            turned = flags.get("transb", "n") != "n"
            found["b"] = found["a"] if self.by_itself else (n, k) if turned else (k, n)
        found["c"] = (m, n)
        return {name: found[name] for name in self.operands}

    def places(self, place: str) -> list[str]:
        """A word per operand: one word stands for all; words of absent operands are dropped."""
        words = place.split(",")
        if len(words) == 1:
            words *= len(self.operands)
        if len(words) == 3:
            words = [words["abc".index(name)] for name in self.operands]
        if len(words) != len(self.operands):
            three = len(self.operands) == 3
            wanted = "three words, as in h,h,0" if three else "two words, as in h,0"
            raise BadArgument(
                f"place: {place!r} is not {wanted}, nor one for all operands of {self.word}",
                "bad_argument",
            )
        return words


@dataclass(frozen=True)
class VectorRoutine(Routine):
    """A routine of levels 1 and 2 as a product with operands a, b and c. Vectors are columns: x of
    axpy and dot is a, x of gemv is b. The result of a dot is a number on the host without a place.
    Absent sizes are 1, so that m*n*k is the number of multiply-adds.
    """

    operands: str = "abc"
    names: str = "axy"
    matrices: str = ""
    scalars: tuple[str, ...] = ("alpha", "beta")

    @property
    def without(self) -> str:
        return "".join(name for name in "mnk" if name not in self.sizes)

    def named(self, letter: str) -> str:
        """The name with a type; complex dots have another letter: "ddot", "zdotu", "zdotc"."""
        return letter + self.word + ("u" if self.word == "dot" and letter in "cz" else "")

    def shapes(self, m: int, n: int, k: int, flags: dict) -> dict[str, tuple[int, int]]:
        """The shapes as stored, also that of a c without a place."""
        if self.word == "gemv":
            rows, columns = (m, n) if flags["transa"] == "n" else (n, m)
            return {"a": (m, n), "b": (columns, 1), "c": (rows, 1)}
        found = {name: (n, 1) for name in self.operands}
        return {"c": (1, 1), **found}


@dataclass(frozen=True)
class LapackRoutine(Routine):
    """A factorization of A in its place, or equations that it solves in the place of B.

    m and n are the shape of A. k is the number of right sides of equations, else the length of A's
    diagonal: no size of its own. `planned`: it has plans as it is.
    """

    operands: str = "a"
    names: str = "a"
    matrices: str = "a"
    scalars: tuple[str, ...] = ()
    planned: bool = True

    without = "k"

    @property
    def solves(self) -> bool:
        return "b" in self.operands

    def edges(self, m=None, n=None, k=None, side: str = "l") -> tuple[int, int, int]:
        given = {"m": m, "n": n}
        if any(given[name] is None for name in self.sizes):
            raise BadArgument(f"give size, or {listed(self.sizes)}", "bad_argument")
        rows = m if "m" in self.sizes else n
        diagonal = min(rows, n)
        if m not in (None, rows) or not (self.solves or k in (None, diagonal)):
            name = "m" if m not in (None, rows) else "k"
            raise BadArgument(f"{self.word} has no {name} of its own", "bad_argument")
        return rows, n, (1 if k is None else k) if self.solves else diagonal

    def shapes(self, m: int, n: int, k: int, flags: dict) -> dict[str, tuple[int, int]]:
        return {"a": (m, n), "b": (n, k)} if self.solves else {"a": (m, n)}

    def places(self, place: str) -> list[str]:
        words = place.split(",")
        if len(words) not in (1, len(self.operands)):
            wanted = "one word, or two as in h,0" if self.solves else "one word"
            raise BadArgument(f"place: {self.word} takes {wanted}, not {place!r}", "bad_argument")
        return words * (len(self.operands) // len(words))

    def multiply_adds(self, m: int, n: int, k: int) -> float:
        """The leading terms of LAPACK's counts."""
        edge = min(m, n)
        lu = m * n * edge - (m + n) * edge**2 / 2 + edge**3 / 3
        found = {"potrf": n**3 / 6, "getrf": lu, "geqrf": 2 * lu, "gesv": lu + n**2 * k}
        return found[self.word]


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
_DOT = {"operands": "ab", "names": "xy", "scalars": ()}
VECTORS = {
    routine.word: routine
    for routine in (
        VectorRoutine("gemv", ("transa",), "mn", matrices="a"),
        VectorRoutine("axpy", (), "n", operands="ac", names="xy", scalars=("alpha",)),
        VectorRoutine("dot", (), "n", **_DOT),
        VectorRoutine("dotc", (), "n", **_COMPLEX, **_DOT),
    )
}
EVERY = {**ROUTINES, **VECTORS}
_SOLVES = {"operands": "ab", "names": "ab", "matrices": "ab", "planned": False}
LAPACK = {
    routine.word: routine
    for routine in (
        LapackRoutine("potrf", ("uplo",), "n", has_b=False),
        LapackRoutine("getrf", (), "mn", has_b=False),
        LapackRoutine("geqrf", (), "mn", has_b=False),
        LapackRoutine("gesv", (), "n", **_SOLVES),
    )
}
KNOWN = {**EVERY, **LAPACK}
