/** @file An agent on a `FakeMachine`: its shims run in this process, on the machine's clock, and start processes that only tests end. */

import { createOrderActivities } from "../../agent/orders/order-activities.ts";
import type { ActivityTask, CancelReason, GangView } from "../../agent/ports/temporal.ts";
import { watchContact } from "../../agent/presence/fence-last-resort.ts";
import { openHost, type AgentHost, type HostSetup } from "../../agent/runs/agent-host.ts";
import { createRunActivities, type RunPorts } from "../../agent/runs/run-activities.ts";
import { watchUnattended } from "../../agent/runs/unattended-run.ts";
import { superviseLaunch } from "../../agent/shim/supervisor.ts";
import { launchFiles, type LaunchStatus } from "../../agent/folder/launch-files.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type {
  OrderActivities,
  RunActivities,
  RunHeartbeat,
} from "../../protocol/agent-contract.ts";
import type { FakeMachine, FakeProcess } from "./fakes.ts";
import { HOST, OBEDIENT } from "./fixture.ts";

export const STATE_DIR = "/state";
const SHIM = "/program/workers/shim.cjs";

export interface FakeAgent {
  readonly host: AgentHost;
  readonly runs: RunActivities;
  readonly orders: OrderActivities;
  /** The last heartbeat of its `run`; undefined before the first and when it has ended. */
  lastBeat(): RunHeartbeat | undefined;
  cancel(reason: CancelReason): void;
  /** Leases whose end was reported to the fleet because no attempt watched. */
  readonly vacated: readonly string[];
}

export interface FakeAgentSetup {
  readonly id?: HostId;
  /** The siblings of its runs, as the server shows them. */
  readonly view?: () => GangView | Promise<GangView>;
  readonly owner?: string;
  readonly heal?: HostSetup["heal"];
  /** In contact unless it is said. */
  readonly contact?: Partial<RunPorts["contact"]>;
}

/** Starts an agent on the machine; the second on the same machine finds what the first has left. */
export function fakeAgent(
  machine: FakeMachine,
  { id = HOST, view = () => ({ isClosed: false, beats: [] }), ...setup }: FakeAgentSetup = {},
): FakeAgent {
  const system = machine.system();
  const host = openHost(
    {
      stateDir: STATE_DIR,
      fleet: "default",
      id,
      gpuCount: 8,
      ...(setup.owner !== undefined && { owner: setup.owner }),
      ...(setup.heal !== undefined && { heal: setup.heal }),
    },
    system,
  );
  const cancelled = new AbortController();
  let why: CancelReason = "asked";
  let beat: RunHeartbeat | undefined;
  const vacated: string[] = [];
  const task: ActivityTask = {
    heartbeat: (next) => (beat = next ?? beat),
    cancelled: cancelled.signal,
    givenAtMs: 0,
    reason: () => why,
  };
  const hosts = new Map([[id, host]]);
  const { run } = createRunActivities({
    hosts,
    gang: { look: async () => await view() },
    contact: {
      isInDoubt: () => false,
      isCutOff: () => false,
      noteAnswer: () => undefined,
      ...setup.contact,
    },
    task: () => task,
    onUnattended: (of, unattended) => {
      void watchUnattended(of, unattended, {
        closing: new AbortController().signal,
        isOver: () => Promise.resolve(false),
        onVacated: () => vacated.push(unattended.leaseId),
      });
    },
    shimPath: SHIM,
    env: { PATH: "/bin" },
    log: { partBytes: 1_000, parts: 2 },
    refusalOf: () => Promise.resolve(undefined),
    readSecrets: () => Promise.resolve({ kind: "read", values: {} }),
    minFreeBytes: 1_000,
  });
  machine.onStart = (started) => {
    if (started.order.command[1] === SHIM)
      void Promise.resolve().then(() => runShim(machine, started));
  };
  return {
    host,
    runs: { run: (order) => run(order).finally(() => (beat = undefined)) },
    orders: createOrderActivities({
      hosts,
      task: () => task,
      check: OBEDIENT,
      maxWaitingReads: 4,
    }),
    lastBeat: () => beat,
    cancel: (reason) => {
      why = reason;
      cancelled.abort();
    },
    vacated,
  };
}

/** The shim's program; it ends when its last status is written, as the real one does when it has nothing left to do. */
function runShim(machine: FakeMachine, shim: FakeProcess): void {
  const dir = shim.order.command[2] ?? "";
  const system = machine.systemOf(shim.pid);
  const { status, claim } = launchFiles(dir);
  superviseLaunch(dir, system, () => shim.order.input ?? "");
  watchContact(dir, system);
  const holder = JSON.parse(machine.text(claim) ?? "{}") as { readonly shim?: { pid: number } };
  if (holder.shim?.pid !== shim.pid) {
    shim.end({ exitCode: 0 });
    return;
  }
  const endWhenDone = (): void => {
    const written = JSON.parse(machine.text(status) ?? "{}") as Partial<LaunchStatus>;
    if (written.phase === "ended") shim.end({ exitCode: 0 });
    else system.clock.after(10, endWhenDone);
  };
  endWhenDone();
}

/** The ranks that run on the machine; shims aside. */
export const ranksOn = (machine: FakeMachine): readonly FakeProcess[] =>
  [...machine.running.values()].filter(({ order }) => order.command[1] !== SHIM);
