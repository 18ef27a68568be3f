# SPDX-License-Identifier: BSD-3-Clause
"""What test_gpu_faults.py starts: programs that use GPUs, each in a process of its own.

usage: python gpu_programs.py NAME [ARGUMENT...]

Each prints a JSON object per line: "what" was tried, what is "wrong" with the result (null if
nothing is), "where" and for which "reason" it was computed.
"""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import fleetblas
import gpu_memory as memory
import numpy as np
from fleetblas._native import library
from gpu_memory import Driver, FleetMemory, GpuMemory, Product

HERE = pathlib.Path(__file__)
HOST = -1
CALLERS = 64
CHILD_LIMIT_S = 60
RESERVE_BYTES = 2**31  # that a holder of 95 % leaves to contexts, its own and others'
HOLD_PIECE, SMALLEST_PIECE = 2**30, 2**20
SAYING = threading.Lock()  # threads report too


def say(what, wrong=None, context=None, **more):
    """`context`: whose last call it was; False for none."""
    last = {} if context is False else (context or fleetblas).stats()["last"] or {}
    told = {key: last.get(key) for key in ("where", "reason", "place", "bytes_by_link")}
    with SAYING:
        print(json.dumps({"what": what, "wrong": wrong, **told, **more}), flush=True)


def tried(*words):
    """What is wrong with a Product; exceptions included, so that what comes next is tried too."""
    try:
        return Product(*words).repeated()
    except (fleetblas.Error, RuntimeError) as error:
        return repr(error)


def pageable(*sizes, seed=1, place=memory.pages):
    return Product(sizes, [place] * 3, seed)


# ---- one product or some ------------------------------------------------------------------------


def product(edge, times, places="p,p,p"):
    """Products of the default context; operands in `places` as on the command line: p, h, 0, 1."""

    def place(word):
        if word == "p":
            return memory.pages
        return lambda size: FleetMemory(None, HOST if word == "h" else int(word), size)

    for seed in range(int(times)):
        sizes = [int(edge) + 7 * seed, int(edge), int(edge) - 11]
        work = Product(sizes, [place(word) for word in places.split(",")], seed)
        say(f"product {seed}", work.once())


def bits(edge):
    """Checksums of a product and a solution of every type, of the same operands in any process."""
    edge = int(edge)
    hopper = Driver().capability(0) == (9, 0)
    for kind in ("float32", "float64", "complex64", "complex128"):
        random = np.random.default_rng(edge)
        a, b = (random.standard_normal((edge, edge)).astype(kind) for _ in "ab")
        a += 1j * b.T if kind.startswith("complex") else 0
        triangle = a + 2 * edge * np.eye(edge, dtype=kind)
        for name, result in (("gemm", fleetblas.gemm(a, b)), ("trsm", fleetblas.trsm(triangle, b))):
            checksum = zlib.crc32(np.ascontiguousarray(result))
            say(f"{kind} {name}", checksum=checksum, hopper=hopper)


def beyond(device):
    """An operand on a device that is said to be larger than its memory."""
    driver, device = Driver(), int(device)

    def gpu(size):
        return GpuMemory(driver, device, driver.allocate(device, size))

    work = Product([512, 512, 512], [gpu, memory.pages, memory.pages], 1)
    work.leading[0] = 2**28  # a terabyte from the first column to the last
    try:
        memory.check(work.call())
        say("beyond", "the call was done", context=False)
    except fleetblas.Error as error:
        say("beyond", context=False, status=error.status, message=str(error))


def failed_kernel(device):
    """The program's own kernel has failed: nothing on that device can be used any more."""
    driver, device = Driver(), int(device)

    def gpu(size):
        return GpuMemory(driver, device, driver.allocate(device, size))

    work = Product([700, 700, 700], [gpu, memory.pages, memory.pages], 1)
    say("before", work.repeated())
    driver.fail(device)
    for _ in range(2):
        try:
            memory.check(work.call())
            say("failed", "the call was done", context=False)
        except fleetblas.Error as error:
            say("failed", context=False, status=error.status)
    say("host", pageable(700, 700, 700).once())


def forever(edge):
    """Products until standard input ends; says when the first is done, and what the last was."""
    edge = int(edge)
    say("first", pageable(edge, edge, edge).once())
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    complaint, calls = None, 0
    while not over.is_set():
        complaint = complaint or pageable(edge, edge, edge, seed=calls).once()
        calls += 1
    say("all", complaint, calls=calls)


def lost_home(device):
    """C lives on a device that is lost during the call."""
    places = [memory.pages, memory.pages, lambda size: FleetMemory(None, int(device), size)]
    work = Product([1500, 1500, 1500], places, seed=3)
    first, second = work.call(), work.call()
    words = [library.fleet_status_string(status).decode() for status in (first, second)]
    host = pageable(700, 700, 700).once()
    say("lost", host, statuses=words)


# ---- memory of all kinds ------------------------------------------------------------------------


def operands():
    driver = Driver()
    last = driver.count - 1

    def gpu(device):
        return lambda size: GpuMemory(driver, device, driver.allocate(device, size))

    def pool(device):
        return lambda size: memory.pool(driver, device, size)

    def given(location):
        return lambda size: FleetMemory(None, location, size)

    def registered(size):
        return memory.registered(None, size)

    def refused(size):
        return memory.read_only(None, size)

    def partly(size):
        return memory.partly_registered(driver, None, size)

    def managed(size):
        return memory.managed(driver, size)

    kinds = {
        "pageable": [memory.pages] * 3,
        "registered": [registered] * 3,
        "read_only": [refused, refused, memory.pages],
        "partly_registered": [partly] * 3,
        "pinned": [lambda size: memory.pinned(driver, size)] * 3,
        "managed": [managed] * 3,
        "first_gpu": [gpu(0)] * 3,
        "last_gpu": [gpu(last)] * 3,
        "given_on_host": [given(HOST)] * 3,
        "given_on_gpu": [given(last)] * 3,
        "c_on_host": [gpu(last), gpu(0), registered],
        "pool_of_first": [pool(0)] * 3,
        "pool_of_last": [pool(last)] * 3,
        "spread": [gpu(0), memory.pages, pool(last)],
        "spread_back": [managed, pool(0), gpu(last)],
    }
    for seed, (name, places) in enumerate(kinds.items()):
        say(name, tried((1100, 900, 1000), places, seed))


def come_again():
    """Memory is given back while graphs of calls on it are kept, and comes again."""
    driver = Driver()

    def gpu(size):
        return memory.freed(driver, GpuMemory(driver, 0, driver.allocate(0, size)))

    kinds = {
        "pinned": lambda size: memory.freed(driver, memory.pinned(driver, size)),
        "gpu": gpu,
        "given_on_host": lambda size: FleetMemory(None, HOST, size),
        "given_on_gpu": lambda size: FleetMemory(None, 0, size),
        "registered": lambda size: memory.registered(None, size),
    }
    for name, place in kinds.items():
        for seed in range(4):
            say(name, tried((700, 700, 700), [place] * 3, seed))


def arrays():
    """Arrays of PyTorch and CuPy on every GPU, from their pools of both kinds."""
    random = np.random.default_rng(5)
    a, b = random.uniform(-1, 1, (2, 900, 900))
    gpus = fleetblas.config()["devices"] or list(range(Driver().count))

    def verdict(found):
        return memory.wrong(found, a @ b, a, b, 0 * a, len(a))

    try:
        import torch
    except ImportError:
        torch = None
    try:
        import cupy
    except ImportError:
        cupy = None
    for gpu in gpus if torch is not None and torch.cuda.is_available() else []:
        left = torch.from_numpy(a).to(f"cuda:{gpu}")
        found = fleetblas.gemm(left, b)
        say(f"torch on {gpu}", verdict(found.cpu().numpy()))
        found = fleetblas.gemm(
            torch.from_numpy(a).pin_memory(), torch.from_numpy(b).to(left.device)
        )
        say(f"torch pinned, and on {gpu}", verdict(found.numpy()))
    for gpu in gpus if cupy is not None else []:
        for pool in (cupy.cuda.MemoryPool(), cupy.cuda.MemoryAsyncPool()):
            cupy.cuda.set_allocator(pool.malloc)
            with cupy.cuda.Device(gpu):
                found = fleetblas.gemm(cupy.asarray(a), cupy.asarray(b))
                kind = type(pool).__name__
                say(f"cupy {kind} on {gpu}", verdict(cupy.asnumpy(found)))
    has_torch = torch is not None and torch.cuda.is_available()
    say("installed", torch=has_torch, cupy=cupy is not None, context=False)


def huge():
    """Leading dimensions for which bytes are counted beyond 32 bits."""
    driver = Driver()
    far = 2**23  # 64 MiB from column to column: 70 of them are beyond 2**32
    farther = 2**28 + 16  # more than 2 GiB: the longest step of a two-dimensional copy

    def gpu(device):
        return lambda size: GpuMemory(driver, device, driver.allocate(device, size))

    last = driver.count - 1
    for name, sizes, leading, places in (
        ("pageable", (600, 70, 70), far, [memory.pages] * 3),
        ("pageable_far", (600, 5, 5), farther, [memory.pages] * 3),
        ("gpu", (600, 70, 70), far, [gpu(0), memory.pages, gpu(last)]),
        ("gpu_far", (600, 5, 5), farther, [gpu(last), memory.pages, gpu(0)]),
        ("managed", (600, 70, 70), far, [lambda size: memory.managed(driver, size)] * 3),
    ):
        say(name, tried(sizes, places, 7, leading))


# ---- several contexts, threads, forks, exits ----------------------------------------------------


def contexts():
    """Contexts with different devices at once, each with C on its own last device."""
    count = Driver().count
    sets = [[0], [count - 1], list(range(count)), list(reversed(range(count))), [0, count - 1]]
    sets = [list(dict.fromkeys(devices)) for devices in sets]

    def work(devices):
        complaint = None
        with fleetblas.Context(devices=devices) as context:
            pointer = context.pointer
            for seed in range(4):
                places = [memory.pages, memory.pages]
                places.append(lambda size: FleetMemory(pointer, devices[-1], size))
                job = Product([700 + seed, 600, 500], places, seed)
                complaint = complaint or job.once(pointer)
                say(f"devices {devices}", complaint, context)
                del job, places  # memory of the context goes before it does

    with ThreadPoolExecutor(len(sets)) as crew:
        for done in [crew.submit(work, devices) for devices in sets]:
            done.result()


def threads():
    """Many callers at once, on one context and on the default one."""
    with fleetblas.Context() as context:
        barrier = threading.Barrier(CALLERS)

        def caller(number):
            barrier.wait()
            pointer = context.pointer if number % 2 else None
            for turn in range(3):
                work = pageable(200 + 16 * (number % 8), 300, 250 + turn, seed=number)
                complaint = work.once(pointer)
                if complaint is not None:
                    return complaint
            return None

        with ThreadPoolExecutor(CALLERS) as crew:
            complaints = list(crew.map(caller, range(CALLERS)))
        wrong = [complaint for complaint in complaints if complaint is not None]
        calls = context.stats()["calls"] + fleetblas.stats()["calls"]
        say("threads", wrong[0] if wrong else None, calls=calls)


def open_gpu_files():
    files = []
    for number in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if name.startswith("/dev/nvidia"):
            files.append((number, name))
    return sorted(files)


def in_child(depth, far):
    """A status for exit: 0 if a product on the CPU was right, those that have an operand in GPU
    memory (`far`) were refused, and nothing of the GPUs was opened.
    """
    signal.alarm(CHILD_LIMIT_S)
    before = open_gpu_files()
    complaint = pageable(300, 300, 300, seed=depth).once()
    last = fleetblas.stats()["last"]
    if complaint is not None:
        return 1
    if (last["where"], last["reason"]) != ("cpu", "forked child"):
        return 2
    words = [library.fleet_status_string(work.call()).decode() for work in far]
    if words != ["unsupported"] * len(far):
        return 5
    if open_gpu_files() != before:
        return 3
    return forked(depth - 1, far) if depth > 0 else 0


def forked(depth, far=()):
    child = os.fork()
    if child == 0:
        status = 4
        try:
            status = in_child(depth, far)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fork():
    """After a call, in a tree, and while other threads are in calls; the parent goes on."""
    driver = Driver()

    def given(size):
        return FleetMemory(None, 0, size)

    def allocated(size):
        return GpuMemory(driver, 0, driver.allocate(0, size))

    far = [
        Product([300] * 3, [place, memory.pages, memory.pages], 1) for place in (given, allocated)
    ]
    say("before", pageable(800, 800, 800).once())
    say("tree", context=False, child=forked(1, far))
    over = threading.Event()

    def keep_calling():
        work = pageable(1200, 1200, 1200)
        while not over.is_set():
            work.call()

    crew = [threading.Thread(target=keep_calling) for _ in range(2)]
    for thread in crew:
        thread.start()
    time.sleep(0.2)
    children = [forked(0) for _ in range(3)]
    over.set()
    for thread in crew:
        thread.join()
    for child in children:
        say("during calls", context=False, child=child)
    say("after", pageable(800, 810, 820).once())


def leave(way, began):
    """Ends in the middle of calls, silently, and writes to the file `began` when it began to."""
    work = pageable(2000, 2000, 2000)
    work.call()

    def keep_calling():
        mine = pageable(2000, 2000, 2000)
        while True:
            mine.call()

    for _ in range(4):
        threading.Thread(target=keep_calling, daemon=True).start()
    time.sleep(0.3)
    pathlib.Path(began).write_text(str(time.monotonic()))
    c_exit = ctypes.CDLL(None).exit
    if way == "python":
        sys.exit(0)
    if way == "main":
        c_exit(0)
    threading.Thread(target=c_exit, args=(0,)).start()
    time.sleep(CHILD_LIMIT_S)


# ---- faults on purpose, and memory that others take ---------------------------------------------


def inject(*faults):
    """Each fault in a context of its own: the result is right, and so is the next one."""
    for fault in faults:
        with fleetblas.Context(inject=fault, tile=256) as context:
            work = pageable(1500, 1400, 1300)
            say(fault, work.once(context.pointer), context)
            say(fault + ", again", pageable(1300, 1200, 900).once(context.pointer), context)


def hold():
    """Holds that part of every GPU's memory that each line of standard input says, of all that
    there is; 1 is what is free to the last piece."""
    driver = Driver()
    held = {device: [] for device in range(driver.count)}
    for line in sys.stdin:
        share = float(line)
        for device, blocks in held.items():
            wanted = int(driver.memory_bytes(device)[1] * share)
            while sum(size for _, size in blocks) > wanted:
                driver.use(device)
                driver("cuMemFree_v2", ctypes.c_uint64(blocks.pop()[0]))
            piece = HOLD_PIECE
            while piece >= SMALLEST_PIECE:
                left = wanted - sum(size for _, size in blocks)
                if left < piece or (
                    share < 1 and driver.memory_bytes(device)[0] < RESERVE_BYTES + piece
                ):
                    break
                try:
                    blocks.append((driver.allocate(device, piece), piece))
                except RuntimeError:
                    piece //= 2
        say("held", share=share, context=False)


def between(*shares):
    """Another process takes memory between calls, which get larger; at last it is gone."""
    say("before", pageable(1000, 1000, 1000).once())
    other = subprocess.Popen(
        [sys.executable, HERE, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    for number, share in enumerate(shares):
        other.stdin.write(share + "\n")
        other.stdin.flush()
        if json.loads(other.stdout.readline())["what"] != "held":
            raise RuntimeError("the other process holds nothing")
        edge = 2000 + 1000 * number
        say(f"while {share} is held", pageable(edge, edge, edge).once())
        fleetblas.trim()
        say(f"while {share} is held, again", pageable(edge, edge - 1, edge).once())
    other.stdin.close()
    other.wait()
    say("after", pageable(3000, 2000, 3000).once())


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
