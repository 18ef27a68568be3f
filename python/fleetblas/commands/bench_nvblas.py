# SPDX-License-Identifier: BSD-3-Clause
"""NVBLAS as a peer, in a separate process, since its settings apply to the process and its failures
end the process. The operands there have the values of those here.

Knows the protocol of nvblas_process, and nothing of NVBLAS.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
from multiprocessing.connection import Pipe

import numpy as np

from .. import _native, verify
from .bench_engines import Engine, Unmeasured
from .bench_operands import Operands

ANSWER_LIMIT_S = 540  # per request; the longest, trying the settings, takes a minute or two
LAST_WORDS = 300  # characters shown of the last output of the process


class NvblasProcess:
    """The process for all problems of a command; started when the first of them needs it."""

    def __init__(self, problems: list[dict], devices: list[int]):
        self.problems, self.devices = problems, devices
        self._child: subprocess.Popen | None = None
        self._said = None
        self._failed: Unmeasured | None = None

    def _start(self) -> None:
        ours, theirs = Pipe()
        # Closed when the process ends.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        paths = [str(_native.PACKAGE.parent), os.environ.get("PYTHONPATH")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        module = "fleetblas.commands.nvblas_process"
        self._child = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno())],
            env=environment,
            cwd=pathlib.Path(tempfile.gettempdir()),
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._pipe = ours
        self.ask("open", self.problems, self.devices)

    def ask(self, question: str, *details):
        """The answer to a request. Raises Unmeasured if there is none, and from then on always."""
        if self._failed is not None:
            raise self._failed
        try:
            if self._child is None:
                self._start()
            self._pipe.send((question, details))
            if not self._pipe.poll(ANSWER_LIMIT_S):
                raise EOFError(f"no answer in {ANSWER_LIMIT_S} s")
            kind, *answer = self._pipe.recv()
        except (OSError, EOFError) as error:
            self._failed = Unmeasured(self._ended(error), "device_failed")
            self.close()
            raise self._failed from None
        if kind == "failed":
            failure = Unmeasured(*answer)
            if question == "open":
                self._failed = failure
            raise failure
        return answer[0]

    def _ended(self, error: Exception) -> str:
        if self._child is None:
            return f"the process of NVBLAS cannot be started: {error}"
        self._child.kill()
        status = self._child.wait()
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, self._said.tell() - LAST_WORDS))
        words = " ".join(self._said.read().decode("utf-8", "replace").split())
        return f"the process of NVBLAS ended ({error or f'status {status}'}): {words}"

    def close(self) -> None:
        if self._child is None:
            return
        self._pipe.close()  # the process ends when its pipe is closed
        try:
            self._child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._said.close()
        self._child = None


class Nvblas(Engine):
    """NVBLAS at the best of its settings; it is meant for operands in pageable memory only."""

    name = "nvblas"
    types = tuple("sdcz")
    routines = ("gemm",)

    def __init__(self, operands: Operands, process: NvblasProcess):
        super().__init__(operands)
        self.process = process
        self.settings: dict = {}

    @property
    def gpus(self) -> list[int]:
        return self.process.devices

    def start_up(self) -> None:
        self.require_problem()
        if self.operands.locations != ["p", "p", "p"]:
            raise Unmeasured("NVBLAS is measured with pageable operands only (--place p,p,p)")
        self.settings = self.process.ask("start_up", self.operands.words)
        self._first_s = self.settings.pop("first_s")

    def reset(self) -> None:
        self.process.ask("reset")

    def call(self) -> float:
        return self.process.ask("call")

    def first_call(self) -> float:
        """The first call of the trials, since settings cannot be tried without calling the
        product."""
        self.call()
        return self._first_s

    def verdict(self, reference: verify.Reference, everything: bool) -> verify.Verdict:
        wanted = (reference.signs, reference.rows, reference.columns)
        verdict = reference.judge(self.process.ask("look_at", *wanted))
        if everything:
            c: np.ndarray = self.process.ask("whole_c")
            verdict.error = verify.whole_error(self.operands.case(c)) / verdict.unit
        return verdict

    def describe(self, row: dict) -> None:
        if self.times:
            row.update({"where": "devices", **self.settings})
