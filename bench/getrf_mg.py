#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""getrf of cuSOLVER's multi-GPU library (libcusolverMg), beside ours of bench/linpack_devices.py.

The matrix is in the memory of the GPUs, to which blocks of columns are dealt in turn.

    bench/getrf_mg.py --cases 32768:2,65536:2 --block 256,512,1024

The factors of an order of 3000 are verified first. Needs NumPy, libcusolverMg and libcudart.
"""

import argparse
import ctypes
import glob
import itertools
import os
import site
import time

import numpy as np

REAL64, INT32 = 1, ctypes.c_int32
CHECKED = 3000


def load(name):
    """A library by the loader's paths, or from one of NVIDIA's wheels."""
    found = [f for d in site.getsitepackages() for f in glob.glob(f"{d}/nvidia/*/lib/{name}.so*")]
    for file in [f"{name}.so", *found]:
        try:
            return ctypes.CDLL(file, mode=os.RTLD_GLOBAL)
        except OSError:
            continue
    raise SystemExit(f"{name} was not found")


class Gpus:
    def __init__(self, count):
        self.cuda, self.mg = load("libcudart"), load("libcusolverMg")
        self.count = count
        for device, peer in itertools.product(range(count), repeat=2):
            self.use(device)
            if device != peer:
                self.cuda.cudaDeviceEnablePeerAccess(peer, 0)
        self.handle, self.grid = ctypes.c_void_p(), ctypes.c_void_p()
        ids = (INT32 * count)(*range(count))
        self.ask("Create", ctypes.byref(self.handle))
        self.ask("DeviceSelect", self.handle, count, ids)
        self.ask("CreateDeviceGrid", ctypes.byref(self.grid), 1, count, ids, 0)

    def ask(self, name, *arguments):
        status = getattr(self.mg, "cusolverMg" + name)(*arguments)
        if status:
            raise SystemExit(f"cusolverMg{name}: status {status}")

    def done(self, code):
        if code:
            raise SystemExit(f"CUDA error {code}")

    def use(self, device):
        self.done(self.cuda.cudaSetDevice(device))

    def wait(self):
        for device in range(self.count):
            self.use(device)
            self.done(self.cuda.cudaDeviceSynchronize())

    def memory(self, sizes):
        """A piece of so many bytes on each GPU."""
        pieces = (ctypes.c_void_p * self.count)()
        for device, size in enumerate(sizes):
            self.use(device)
            piece = ctypes.c_void_p()
            self.done(self.cuda.cudaMalloc(ctypes.byref(piece), ctypes.c_size_t(max(size, 256))))
            pieces[device] = piece
        return pieces

    def free(self, pieces):
        for device, piece in enumerate(pieces):
            self.use(device)
            self.done(self.cuda.cudaFree(ctypes.c_void_p(piece)))

    def copy(self, to, source, size):
        self.done(
            self.cuda.cudaMemcpy(
                ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size), 4
            )
        )


def getrf(gpus, n, block, columns):
    """(seconds, the factors' columns by GPU, pivots' by GPU): columns(j, k) makes k columns."""
    blocks = -(-n // block)
    local = [-(-(blocks - device) // gpus.count) * block for device in range(gpus.count)]
    a = gpus.memory([8 * n * cols for cols in local])
    pivots = gpus.memory([4 * cols for cols in local])
    for index in range(blocks):
        begin = index * block
        some = columns(begin, min(block, n - begin))
        to = a[index % gpus.count] + 8 * n * block * (index // gpus.count)
        gpus.copy(to, some.ctypes.data, some.nbytes)
    descriptor = ctypes.c_void_p()
    gpus.ask(
        "CreateMatrixDesc", ctypes.byref(descriptor), *map(ctypes.c_int64, (n, n, n, block)),
        REAL64, gpus.grid,
    )  # fmt: skip
    size = ctypes.c_int64()
    given = (gpus.handle, n, n, a, 1, 1, descriptor, pivots, REAL64)
    gpus.ask("Getrf_bufferSize", *given, ctypes.byref(size))
    work = gpus.memory([8 * size.value] * gpus.count)
    info = INT32(-1)
    gpus.wait()
    begin = time.perf_counter()
    gpus.ask("Getrf", *given, work, size, ctypes.byref(info))
    gpus.wait()
    seconds = time.perf_counter() - begin
    if info.value:
        raise SystemExit(f"getrf of order {n}: info {info.value}")
    gpus.free(work)
    return seconds, a, pivots


def verify(gpus, block):
    random = np.random.default_rng(1)
    a = np.asfortranarray(random.uniform(-0.5, 0.5, (CHECKED, CHECKED)))
    _, pieces, pivots = getrf(gpus, CHECKED, block, lambda j, k: a[:, j : j + k])
    factors, order = np.zeros_like(a, order="F"), np.arange(CHECKED)
    for index in range(-(-CHECKED // block)):
        begin, end = index * block, min(CHECKED, (index + 1) * block)
        device, at = index % gpus.count, block * (index // gpus.count)
        gpus.copy(factors[:, begin:end].ctypes.data, pieces[device] + 8 * CHECKED * at,
                  8 * CHECKED * (end - begin))  # fmt: skip
        rows = np.zeros(end - begin, np.int32)
        gpus.copy(rows.ctypes.data, pivots[device] + 4 * at, rows.nbytes)
        for i, row in enumerate(rows, begin):
            order[[i, row - 1]] = order[[row - 1, i]]
    gpus.free(pieces)
    gpus.free(pivots)
    error = np.abs(np.tril(factors, -1) @ np.triu(factors) + np.triu(factors) - a[order]).max()
    if error > 1e-11:
        raise SystemExit(f"wrong factors: P*A - L*U has elements of {error:.1e}")
    print(f"order {CHECKED}, block {block}: P*A - L*U is {error:.1e} at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="32768:2", help="N:GPUS, with commas between")
    parser.add_argument("--block", default="512", help="column blocks, with commas between")
    options = parser.parse_args()
    some = np.random.default_rng(2).uniform(-0.5, 0.5, 1 << 27)
    known = {}
    for case, block in itertools.product(options.cases.split(","), options.block.split(",")):
        n, count = map(int, case.split(":"))
        gpus = known.setdefault(count, None) or Gpus(count)
        if known[count] is None:
            known[count] = gpus
            verify(gpus, int(block))

        def columns(j, k, n=n):
            begin = (j * 7919) % (some.size - n * k)
            return some[begin : begin + n * k]

        seconds, pieces, pivots = getrf(gpus, n, int(block), columns)
        gpus.free(pieces)
        gpus.free(pivots)
        print(f"cusolverMg getrf N {n} block {block} GPUs {count}: {seconds:.3f} s, "
              f"{2 / 3 * n**3 / seconds * 1e-12:.2f} TFLOPS", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
