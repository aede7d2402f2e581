"""Four ranks as threads, each with a copy of the plugin and a reporter, over a stand-in for torch.distributed.

reporter_ranks.py PLUGIN.so FOLDER LACKING [RECORDED [UNTIMED]]: rank LACKING (−1: none) has no plugin; step RECORDED (−1: none)
is recorded into a graph by all ranks, and before it rank 1 alone asks what the call would cost. With UNTIMED the ranks' NCCL has
loaded the profiler, but that of rank UNTIMED, and the call takes 1 ms on rank 0, 2 on rank 1 and so on. Prints, for every step, the
cells of the cost table that the ranks set to 0 for one call.
"""

import ctypes
import os
import shutil
import sys
import threading
import types

plugin, folder, lacking = sys.argv[1], sys.argv[2], int(sys.argv[3])
recorded = int(sys.argv[4]) if len(sys.argv) > 4 else None
untimed = int(sys.argv[5]) if len(sys.argv) > 5 else None
RANKS, STEPS = 4, 12
here = threading.local()
barrier = threading.Barrier(RANKS)
board = [None] * RANKS


class Tensor(list):
    def tolist(self):
        return list(self)


def exchanged(tensor, join):
    """Every rank lays down its own, and takes what `join` makes of all."""
    board[here.rank] = list(tensor)
    barrier.wait()
    result = join(board)
    barrier.wait()
    tensor[:] = result


torch = types.ModuleType("torch")
torch.tensor = lambda values, dtype=None, device=None: Tensor(values)
torch.uint8 = torch.int64 = None


class CUDAGraph:
    def capture_begin(self, fails=False):
        if fails:
            raise RuntimeError("another capture is going on")

    def capture_end(self):
        pass


torch.cuda = types.SimpleNamespace(is_available=lambda: False)
torch.distributed = types.SimpleNamespace(
    is_initialized=lambda: True,
    get_backend=lambda: "gloo",
    get_rank=lambda: here.rank,
    broadcast=lambda tensor, src: exchanged(tensor, lambda all_of: all_of[src]),
    all_reduce=lambda tensor, op: exchanged(tensor, lambda all_of: [max(each) for each in zip(*all_of)]),
    ReduceOp=types.SimpleNamespace(MAX=0),
)
sys.modules["torch"] = torch
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../plugin"))
import orbweaver_reporter  # noqa: E402

os.environ["ORBWEAVER_COLLECTIVES_POLICY"] = os.path.join(folder, "policy")
os.environ["ORBWEAVER_COLLECTIVES_REWARDS"] = os.path.join(folder, "rewards")


class Interface(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("name", "init", "choose", "end")]


INIT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
)
CHOOSE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_int,
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int),
)


class Profiler(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("name", "init", "start", "stop", "record", "finalize")]


class Collective(ctypes.Structure):
    """An event of NCCL's profiler interface, version 4; a kernel's has its channel and its clock in the place of the first two."""

    _fields_ = [
        ("type", ctypes.c_uint8), ("parent", ctypes.c_void_p), ("rank", ctypes.c_int), ("number", ctypes.c_uint64),
        ("function", ctypes.c_char_p), ("send", ctypes.c_void_p), ("receive", ctypes.c_void_p), ("count", ctypes.c_size_t),
        ("root", ctypes.c_int), ("datatype", ctypes.c_char_p), ("channels", ctypes.c_uint8), ("warps", ctypes.c_uint8),
        ("algorithm", ctypes.c_char_p), ("protocol", ctypes.c_char_p),
    ]


class Kernel(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_uint8), ("parent", ctypes.c_void_p), ("rank", ctypes.c_int), ("hole", ctypes.c_int),
        ("channel", ctypes.c_uint8), ("timer", ctypes.c_uint64),
    ]


PROFILER_INIT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int), ctypes.c_char_p, ctypes.c_uint64,
    ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p,
)
START = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
RECORD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))
COLLECTIVE, KERNEL, KERNEL_STOP = 2, 64, 22


def timed_by(profiler, context, rank):
    """One call of 500 bytes, as NCCL tells of it."""
    call, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    begun = Collective(type=COLLECTIVE, function=b"AllReduce", datatype=b"ncclInt8", count=500)
    START(profiler.start)(context, ctypes.byref(call), ctypes.addressof(begun))
    running = Kernel(type=KERNEL, parent=call.value, timer=5_000_000)
    START(profiler.start)(context, ctypes.byref(kernel), ctypes.addressof(running))
    ended = ctypes.c_uint64(5_000_000 + 1_000_000 * (rank + 1))
    RECORD(profiler.record)(kernel, KERNEL_STOP, ctypes.byref(ended))


ALL_REDUCE, ALGORITHMS, PROTOCOLS = 4, 7, 3
chosen = [[] for _ in range(RANKS)]


def play(rank, reporter):
    here.rank = rank
    context = ctypes.c_void_p()
    if reporter.lib:
        interface = Interface.in_dll(reporter.lib, "ncclTunerPlugin_v4")
        assert INIT(interface.init)(RANKS, 2, None, ctypes.byref(context)) == 0
    profiler, profiled = None, ctypes.c_void_p()
    if reporter.lib and untimed is not None and untimed != rank:
        profiler = Profiler.in_dll(reporter.lib, "ncclProfiler_v4")
        kinds = ctypes.c_int(0)
        PROFILER_INIT(profiler.init)(ctypes.byref(profiled), ctypes.byref(kinds), b"", 7, 2, RANKS, rank, None)
        assert kinds.value == COLLECTIVE | KERNEL

    def call():
        costs = (ctypes.c_float * (ALGORITHMS * PROTOCOLS))(*[5.0] * (ALGORITHMS * PROTOCOLS))
        if reporter.lib:
            channels = ctypes.c_int(0)
            CHOOSE(interface.choose)(
                context, ALL_REDUCE, 500, 1, costs, ALGORITHMS, PROTOCOLS, 0, ctypes.byref(channels)
            )
        if profiler:
            timed_by(profiler, profiled, rank)
        return [cell for cell, cost in enumerate(costs) if cost == 0.0]

    for step in range(STEPS):
        graph = graphs[rank]()
        if step == recorded:
            try:
                graph.capture_begin(fails=True)
            except RuntimeError:
                pass
            if rank == 1:
                with reporter.aside():
                    call()
            graph.capture_begin()
        chosen[rank].append(call())
        if step == recorded:
            graph.capture_end()
        reporter.step()


reporters, graphs = [], []
for rank in range(RANKS):
    copy = os.path.join(folder, f"rank-{rank}.so")
    if rank != lacking:
        shutil.copy(plugin, copy)
    os.environ["NCCL_TUNER_PLUGIN"] = copy
    # A rank is a process, and watches the graphs of its own torch.
    torch.cuda.CUDAGraph = type("CUDAGraph", (CUDAGraph,), {})
    graphs.append(torch.cuda.CUDAGraph)
    reporters.append(orbweaver_reporter.Reporter(every=4))
threads = [threading.Thread(target=play, args=(rank, reporters[rank])) for rank in range(RANKS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for step in range(STEPS):
    print([chosen[rank][step] for rank in range(RANKS)])
