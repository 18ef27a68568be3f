# SPDX-License-Identifier: BSD-3-Clause
"""Joules of a call, from the total-energy counters of the GPUs (NVML).

A GPU's counter is in millijoules and advances about every 100 ms, so calls are repeated for a
second or more, from one advance of the counter to another. Knows nothing of the calls.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass

from .bench_engines import Unmeasured
from .cuda_libraries import Driver

SPAN_S = 1.0  # ten advances of a counter
STANDSTILL_S = 2.0  # a counter that stands still for longer does not work


@dataclass
class Energy:
    joules: dict[int, float]  # of one call, by GPU
    watts: float  # total of these GPUs during the calls
    calls: int

    def of(self, gpus) -> float:
        """Joules of one call, of these GPUs alone."""
        return sum(self.joules[gpu] for gpu in gpus)


@dataclass
class _Reading:
    advances: list[tuple[int, float]]  # by GPU: millijoules, and when they were seen
    at_s: float
    calls: int  # number of calls made


class Meter:
    """The counters of the GPUs with these CUDA numbers. Raises Unmeasured if they have none."""

    def __init__(self, devices: list[int], driver: Driver | None = None):
        if not devices:
            raise Unmeasured("no GPU takes part")
        try:
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise Unmeasured(f"no NVML: {error}") from None
        self._call("nvmlInit_v2")
        self.devices = devices
        driver = driver or Driver()
        self._handles = [self._handle(driver.bus_id(device)) for device in devices]
        self.millijoules()  # raises on older GPUs, which have no counter

    def _call(self, name: str, *arguments) -> None:
        try:
            status = getattr(self._nvml, name)(*arguments)
        except AttributeError:
            raise Unmeasured(f"{name} is not in NVML") from None
        if status != 0:
            raise Unmeasured(f"{name} failed with NVML status {status}")

    def _handle(self, bus_id: bytes) -> ctypes.c_void_p:
        # NVML numbers all GPUs, CUDA the visible ones, so they are matched by bus address.
        handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByPciBusId_v2", bus_id, ctypes.byref(handle))
        return handle

    def millijoules(self) -> list[int]:
        """The energy of each GPU since the driver was loaded."""
        values = []
        for handle in self._handles:
            counter = ctypes.c_ulonglong()
            self._call("nvmlDeviceGetTotalEnergyConsumption", handle, ctypes.byref(counter))
            values.append(counter.value)
        return values

    def measure(self, call) -> Energy | None:
        """Repeats `call` and divides the energy by the calls; None if a counter stands still.

        Each GPU's power is its energy between two advances of its counter, which are not those of
        another's.
        """
        first = self._call_until_moved(call, 0.0)
        last = self._call_until_moved(call, SPAN_S) if first else None
        if first is None or last is None:
            return None
        call_s = (last.at_s - first.at_s) / last.calls
        watts = [
            (to - begin) / 1000 / (to_s - begin_s)
            for (begin, begin_s), (to, to_s) in zip(first.advances, last.advances)
        ]
        if min(watts) <= 0:
            return None
        joules = {gpu: watt * call_s for gpu, watt in zip(self.devices, watts)}
        return Energy(joules, sum(watts), last.calls)

    def _call_until_moved(self, call, least_s: float) -> _Reading | None:
        """Calls for this long, and then until each counter has advanced since the previous call."""
        begin_s = time.perf_counter()
        calls, longest_s, before = 0, least_s, None
        seen: dict[int, tuple[int, float]] = {}
        while True:
            start_s = time.perf_counter()
            # Reading takes as long as a short call, so it is done only if this call may be the
            # last, and only once, since a second reading would miss an advance in between.
            may_end = start_s - begin_s + longest_s >= least_s
            if may_end and before is None:
                before = self.millijoules()
            call()
            calls += 1
            now_s = time.perf_counter()
            longest_s = now_s - start_s if calls == 1 else max(longest_s, now_s - start_s)
            if now_s - begin_s < least_s:
                before = None
            if before is None:
                continue
            after = self.millijoules()
            at_s = time.perf_counter()
            for place, (old, new) in enumerate(zip(before, after)):
                if new != old:
                    seen.setdefault(place, (new, at_s))
            if len(seen) == len(after):
                return _Reading([seen[place] for place in range(len(after))], at_s, calls)
            before = after
            if now_s - begin_s > least_s + STANDSTILL_S:
                return None
