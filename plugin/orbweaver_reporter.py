"""Times the steps of a training job, writes the rewards, and lets all ranks take a new policy together.

    reporter = orbweaver_reporter.Reporter()  # on every rank, after init_process_group
    reporter.step()                           # on every rank, at the end of every step

Calls that do not run are left out: those that torch records into a CUDA graph, or asks NCCL about the time of. Where
something else does either, it stands in `with reporter.aside():`.

Needs Python only; without the plugin it only tells rank 0's typical step time (ORBWEAVER_STEPS_FILE), and without Orbweaver it
has no effect. With `agree=False`, on all ranks, there are no
votes: rewards are written all the same, and a new policy comes with the next start of the job.
"""

import atexit
import contextlib
import ctypes
import os
import sys
import time

TIMES = 1026  # What a rank says of its collectives' times, and, of each, that it does not know.
UNKNOWN = 1 << 62


class Reporter:
    def __init__(self, agree=True, every=10):
        """`every`: steps between two looks for a new policy; the same number on all ranks. Collectives are timed up to 14."""
        self.lib, self.times_of = None, None
        self.every, self.count, self.last, self.is_exact = max(1, int(every)), 0, None, False
        is_first = os.environ.get("RANK", "0") == "0"
        self.steps_file, self.began, self.times = os.environ.get("ORBWEAVER_STEPS_FILE") if is_first else None, None, []
        is_launched = "ORBWEAVER_COLLECTIVES_POLICY" in os.environ  # The same on all ranks of a launch.
        self.agree = agree and is_launched
        try:  # The library that NCCL has loaded, or will load.
            if is_launched:
                self.lib = ctypes.CDLL(os.environ.get("NCCL_TUNER_PLUGIN", "none"))
                self.lib.orbweaver_collectives_step.argtypes = [ctypes.c_double]
                self.lib.orbweaver_collectives_aside.argtypes = [ctypes.c_int]
                self.times_of = getattr(self.lib, "orbweaver_collectives_times", None)  # Not in a library of before.
                atexit.register(self.lib.orbweaver_collectives_flush)
                self._watch_torch(sys.modules.get("torch"))
        except (OSError, AttributeError):
            self.lib, self.times_of = None, None

    @contextlib.contextmanager
    def aside(self):
        """Collectives in here do not run now: no schedule counts them, and no arm on trial gets into a graph."""
        self._set_aside(1)
        try:
            yield
        finally:
            self._set_aside(0)

    def _set_aside(self, is_begun):
        if self.lib:
            self.lib.orbweaver_collectives_aside(is_begun)

    def _watch_torch(self, torch):
        graph = getattr(getattr(torch, "cuda", None), "CUDAGraph", None)
        distributed = getattr(getattr(torch, "_C", None), "_distributed_c10d", None)
        for owner, first, last in (
            (graph, "capture_begin", "capture_end"),
            (getattr(distributed, "Backend", None), "_start_time_estimate", "_end_time_estimate"),
        ):
            if hasattr(owner, first) and hasattr(owner, last):
                setattr(owner, first, self._with_aside(getattr(owner, first), 1))
                setattr(owner, last, self._with_aside(getattr(owner, last), 0))

    def _with_aside(self, call, is_begun):
        def watched(*args, **named):
            if is_begun:
                self._set_aside(1)
            try:
                return call(*args, **named)
            except BaseException:
                if is_begun:  # It has not begun.
                    self._set_aside(0)
                raise
            finally:
                if not is_begun:
                    self._set_aside(0)

        return watched

    def step(self):
        torch = sys.modules.get("torch")
        if self.lib:
            if self.is_exact and torch and torch.cuda.is_available():
                torch.cuda.synchronize()  # While arms are compared, a step's time is that of its own work.
            now = time.perf_counter()
            is_exact = self.lib.orbweaver_collectives_step((now - self.last) * 1e3 if self.last else 0.0) == 1
            # Where exact timing begins or ends, the next step includes work of other steps.
            self.last, self.is_exact = now if is_exact == self.is_exact else None, is_exact
        self.count += 1
        if self.steps_file:
            self._note()
        if self.agree and torch and self.count % self.every == 0 and torch.distributed.is_initialized():
            self._vote(torch, torch.distributed)

    def _note(self):
        """A line for every `every` steps: their median, in milliseconds. What runs asynchronously is timed where it is waited for."""
        now = time.perf_counter()
        if self.began is not None:
            self.times.append((now - self.began) * 1e3)
        self.began = now
        if len(self.times) < self.every:
            return
        line, self.times = "%.3f\n" % sorted(self.times)[len(self.times) // 2], []
        try:
            with open(self.steps_file, "a") as file:
                file.write(line)
        except OSError:
            self.steps_file = None

    def _vote(self, torch, dist):
        """All ranks take part, also one without the plugin: it holds no policy, so no rank adopts one, and knows no time."""
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        text, times = ctypes.create_string_buffer(16384), (ctypes.c_int64 * TIMES)(*[UNKNOWN] * TIMES)
        is_timed = self.times_of is not None and self.times_of(times) == 1
        size = self.lib.orbweaver_collectives_offer(text, 16384) if self.lib and dist.get_rank() == 0 else 0
        length = torch.tensor([size, int(is_timed)], device=device)
        dist.broadcast(length, src=0)
        if int(length[1]) == 1:  # Rank 0's NCCL tells how long collectives take: the slowest rank's time counts.
            if self.times_of:
                self.times_of(times)  # By now the kernels of former steps have ended.
            slowest = torch.tensor(list(times), dtype=torch.int64, device=device)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            if self.times_of:
                self.lib.orbweaver_collectives_slowest((ctypes.c_int64 * TIMES)(*slowest.tolist()))
            self.last = time.perf_counter()
        if int(length[0]) == 0:
            return
        data = torch.tensor(list(text.raw[: int(length[0])]), dtype=torch.uint8, device=device)
        dist.broadcast(data, src=0)
        ballot = (ctypes.c_int64 * 4)()
        if self.lib:
            self.lib.orbweaver_collectives_hold(bytes(data.tolist()), int(length[0]))
            self.lib.orbweaver_collectives_ballot(ballot)
        votes = torch.tensor(list(ballot), dtype=torch.int64, device=device)
        dist.all_reduce(votes, op=dist.ReduceOp.MAX)
        if self.lib:
            self.lib.orbweaver_collectives_elect((ctypes.c_int64 * 4)(*votes.tolist()))
        self.last = None
