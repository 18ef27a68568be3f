# SPDX-License-Identifier: BSD-3-Clause
"""Joules of a call, from the total-energy counters of the GPUs (NVML).

A GPU's counter is in millijoules and moves about every 100 ms, so calls are repeated for a second
and more, from one movement of the counter to another. Knows nothing of what is called.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass

from .bench_engines import Unmeasured
from .cuda_libraries import Driver

SPAN_S = 1.0  # ten movements of a counter
STANDSTILL_S = 2.0  # a counter that does not move for so long is none


@dataclass
class Energy:
    joules: float  # of one call, by all of the GPUs asked for, idle ones too
    watts: float  # of all of them together, while they were at it
    calls: int


@dataclass
class _Reading:
    millijoules: int
    at_s: float
    calls: int  # that led to it


class Meter:
    """The counters of the GPUs with these CUDA numbers. Raises Unmeasured where there are none."""

    def __init__(self, devices: list[int], driver: Driver | None = None):
        if not devices:
            raise Unmeasured("no GPU takes part")
        try:
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise Unmeasured(f"no NVML: {error}") from None
        self._call("nvmlInit_v2")
        driver = driver or Driver()
        self._handles = [self._handle(driver.bus_id(device)) for device in devices]
        self.millijoules()  # older GPUs have no counter: then there is no meter

    def _call(self, name: str, *arguments) -> None:
        try:
            status = getattr(self._nvml, name)(*arguments)
        except AttributeError:
            raise Unmeasured(f"{name} is not in NVML") from None
        if status != 0:
            raise Unmeasured(f"{name} failed with NVML status {status}")

    def _handle(self, bus_id: bytes) -> ctypes.c_void_p:
        # NVML counts all GPUs, CUDA those that are visible to it: the place on the bus is the same.
        handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByPciBusId_v2", bus_id, ctypes.byref(handle))
        return handle

    def millijoules(self) -> int:
        """Since the driver was loaded, of all the GPUs."""
        total = 0
        for handle in self._handles:
            counter = ctypes.c_ulonglong()
            self._call("nvmlDeviceGetTotalEnergyConsumption", handle, ctypes.byref(counter))
            total += counter.value
        return total

    def measure(self, call) -> Energy | None:
        """Repeats `call` and shares out what it took; None where the counters stand still."""
        first = self._call_until_moved(call, 0.0)
        last = self._call_until_moved(call, SPAN_S) if first else None
        if first is None or last is None:
            return None
        joules, seconds = (last.millijoules - first.millijoules) / 1000, last.at_s - first.at_s
        return Energy(joules / last.calls, joules / seconds, last.calls) if joules > 0 else None

    def _call_until_moved(self, call, least_s: float) -> _Reading | None:
        """Calls for so long and then on until a counter has moved since the call before."""
        begin_s = time.perf_counter()
        calls, longest_s, before = 0, least_s, None
        while True:
            start_s = time.perf_counter()
            # Reading takes time too, as long as a short call: only where this call may be the last,
            # and not a second time, since a counter that moves in between would go unseen.
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
            if after != before:
                return _Reading(after, time.perf_counter(), calls)
            if now_s - begin_s > least_s + STANDSTILL_S:
                return None
