/**
 * @file How a model agent watches the GPUs of its host: those that are broken it drains in its fleet, then ends what runs on them as a failure of the host, and drains of its
 * own are over once their GPUs are sound.
 *
 * As `agent/health/gpu-service.ts` and `agent/health/move-launches.ts` have it. No host of a world is without a sound GPU.
 */

import { drainedMask } from "../../scheduling/ledger/rules/gpu-drains.ts";
import { sleep, type Process, type Task } from "../kernel/process.ts";
import { askFleet, FLEET } from "../shells/site.ts";
import { maskOn } from "./agent-rules.ts";
import type { Agents, GpuOrder } from "./agents.ts";
import { keyOf } from "./disk.ts";
import { callOff, type Host } from "./host.ts";

const CHECK_MS = 5_000;
/** How the reasons of its own drains begin. */
const OF = "GPU fault";

export function* watchGpus(agents: Agents, host: Host, process: Process): Task<void> {
  // A former agent may have left drains.
  let isAnyOut = true;
  for (;;) {
    if (host.brokenGpus !== 0 || isAnyOut) isAnyOut = yield* check(agents, host, process);
    yield* sleep(agents.site().kernel, CHECK_MS);
  }
}

/** Whether drains of its own may be left. */
function* check(agents: Agents, host: Host, process: Process): Task<boolean> {
  const found = yield* askFleet(agents.site(), process, {
    fleet: FLEET,
    question: ({ ledger }) => ledger.hosts.get(host.id)?.gpuDrains ?? [],
  });
  if (found.kind !== "answer") return true;
  const broken = host.brokenGpus;
  const own = drainedMask({ gpuDrains: found.value.filter(({ reason }) => reason === OF) });
  const order = (mask: number, of: GpuOrder): Task<void> =>
    agents.orderGpus(process, { ...of, gpus: [{ host: host.id, mask }] });
  const wanted = broken & ~drainedMask({ gpuDrains: found.value });
  if (wanted !== 0) yield* order(wanted, { kind: "drain-gpus", reason: OF, isNew: true });
  // What runs there would come back before that.
  else if (broken !== 0) yield* moveLaunches(host, broken);
  const over = own & ~broken;
  if (over !== 0) yield* order(over, { kind: "undrain-gpus", of: OF });
  return broken !== 0 || own !== 0;
}

function* moveLaunches(host: Host, broken: number): Task<void> {
  for (const launch of [...host.launches.values()]) {
    const { order, phase } = launch;
    if (phase === "over" || (maskOn(order) & broken) === 0 || !host.disk.takesFiles()) continue;
    const atMs = host.clock().wallMs;
    if (phase === "stored") callOff(launch, atMs);
    const cause = { code: "HOST_LOST", message: "its GPU is out of service", atMs } as const;
    yield* host.killRanks(keyOf(order), order.run.graceMs, cause);
  }
}
