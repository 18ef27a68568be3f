# SPDX-License-Identifier: BSD-3-Clause
"""Measures engines: first calls, warm-ups, rounds in turn until the mean is precise, energy, and a
verified call.

Knows nothing of rows and files.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass

from .bench_engines import MEASURING_ERRORS, Engine

LEAST_CALLS = 3  # the least number for a median, however long calls take
LEAST_WARMUPS = 3
# Calls on GPUs take longer for 0.15 s after the CPU has checked a result (docs/performance, "Where
# the time of a call goes").
QUIET_S = 0.3
# 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom; the last holds beyond.
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179)
STUDENT += (2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064)
STUDENT += (2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def interval(times: list[float]) -> float | None:
    """Half the 95 % confidence interval of the mean, as a share of the mean."""
    if len(times) < 2:
        return None
    quantile = STUDENT[min(len(times) - 1, len(STUDENT)) - 1]
    return quantile * statistics.stdev(times) / math.sqrt(len(times)) / statistics.fmean(times)


@dataclass
class Method:
    """When warming up ends, and when an engine has been timed often enough."""

    warmup: int
    most: int  # timed calls
    least: int = LEAST_CALLS
    seconds: float = math.inf  # for timed calls, and the same for warm-ups
    precision: float | None = None  # interval at which to stop, as a share; None: only at `most`
    enough_warm_s: float = math.inf  # after this, LEAST_WARMUPS are enough

    def is_warm(self, times: list[float]) -> bool:
        if len(times) >= self.warmup:
            return True
        if len(times) >= LEAST_WARMUPS and sum(times) >= self.enough_warm_s:
            return True
        return len(times) >= 1 and sum(times) >= self.seconds

    def is_timed(self, times: list[float]) -> bool:
        if len(times) >= self.most:
            return True
        if len(times) < self.least:
            return False
        return sum(times) >= self.seconds or (
            self.precision is not None and interval(times) <= self.precision
        )


def measure(
    engines: list[Engine], method: Method, reference, meter, progress, everything: bool = False
) -> None:
    """First calls, each checked, warm-up, rounds in which the engines take turns, a second or more
    of each engine alone for its energy, then a verified call.

    `reference()` is the expected result, `meter(gpus)` the energy meter or None; `everything`: all
    of C is verified at the end. Where an engine has GPUs, each first check is waited out.
    """

    def attempt(engine: Engine, step) -> None:
        if engine.failure is None:
            try:
                step()
            except MEASURING_ERRORS as error:
                engine.failure = error

    def first(engine: Engine) -> None:
        engine.start_up()
        engine.reset()
        engine.first_s = engine.first_call()
        engine.verdicts.append(engine.verdict(reference(), everything=False))
        engine.make_ready()
        if any(each.gpus for each in engines):
            time.sleep(QUIET_S)

    def energy(engine: Engine) -> None:
        counters = meter(engine.gpus)
        # Resetting C before every call would be counted too.
        if counters is not None and engine.operands.growth <= 1:
            engine.energy = counters.measure(engine.call)

    def last(engine: Engine) -> None:
        engine.reset()
        engine.call()
        engine.verdicts.append(engine.verdict(reference(), everything))

    warm: dict[int, list[float]] = {id(engine): [] for engine in engines}

    def is_done(engine: Engine) -> bool:
        return engine.failure is not None or method.is_timed(engine.times)

    for engine in engines:
        progress(f"{engine.name}: first call")
        attempt(engine, lambda engine=engine: first(engine))
    turn = 0  # each round begins with another engine: the first call after a pause differs
    while not all(map(is_done, engines)):
        turn = (turn + 1) % len(engines)
        for engine in engines[turn:] + engines[:turn]:
            if is_done(engine):
                continue
            warming = warm[id(engine)]
            times = engine.times if method.is_warm(warming) else warming
            progress(f"{engine.name}: {len(warming)} to warm up, {len(engine.times)} timed")
            attempt(engine, lambda engine=engine, times=times: times.append(engine.call()))
    for engine in engines:
        progress(f"{engine.name}: energy")
        attempt(engine, lambda engine=engine: energy(engine))
    for engine in engines:
        progress(f"{engine.name}: verifying")
        attempt(engine, lambda engine=engine: last(engine))
    progress("")
