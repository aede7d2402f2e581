"""Times the steps of a training job, writes the rewards, and lets all ranks take a new policy together.

    reporter = orbweaver_reporter.Reporter()  # on every rank, after init_process_group
    reporter.step()                           # on every rank, at the end of every step

Needs Python only; without the plugin or Orbweaver it has no effect. With `agree=False`, on all ranks, there are no
votes: rewards are written all the same, and a new policy comes with the next start of the job.
"""

import atexit
import ctypes
import os
import sys
import time


class Reporter:
    def __init__(self, agree=True, every=10):
        """`every`: steps between two looks for a new policy; the same number on all ranks."""
        self.lib, self.every, self.count, self.last, self.is_exact = None, max(1, int(every)), 0, None, False
        is_launched = "ORBWEAVER_COLLECTIVES_POLICY" in os.environ  # The same on all ranks of a launch.
        self.agree = agree and is_launched
        try:  # The library that NCCL has loaded, or will load.
            if is_launched:
                self.lib = ctypes.CDLL(os.environ.get("NCCL_TUNER_PLUGIN", "none"))
                self.lib.orbweaver_collectives_step.argtypes = [ctypes.c_double]
                atexit.register(self.lib.orbweaver_collectives_flush)
        except (OSError, AttributeError):
            self.lib = None

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
        if self.agree and torch and self.count % self.every == 0 and torch.distributed.is_initialized():
            self._vote(torch, torch.distributed)

    def _vote(self, torch, dist):
        """All ranks take part, also one without the plugin: it holds no policy, so no rank adopts one."""
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        text = ctypes.create_string_buffer(16384)
        size = self.lib.orbweaver_collectives_offer(text, 16384) if self.lib and dist.get_rank() == 0 else 0
        length = torch.tensor([size], device=device)
        dist.broadcast(length, src=0)
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
