/**
 * @file A host of the world: what its disk keeps, what runs on its GPUs, and the supervisors of its launches, which live without the agent.
 *
 * The truth about processes is here; the agent learns it by looking. A supervisor writes how its launch ended, and ends it when the host has been
 * cut off for its fence.
 */

import type { RunCause, RunOrder, RunReport } from "../../protocol/agent-contract.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { sleep, type Process, type Task } from "../kernel/process.ts";
import type { AgentRules, HostClock } from "./agent-rules.ts";
import { batchEnds } from "./batch-report.ts";
import { createBatches } from "./batches.ts";
import { createClocks, type HostClocks } from "./clocks.ts";
import { createFenceWatch } from "./fence-watch.ts";
import { createDiskWrites, type DiskWrites } from "./disk-writes.ts";
import { keyOf, type Contact, type Launch, type Tokens } from "./disk.ts";
import type { Fate, Silenced, Witness } from "./witness.ts";

export interface Host {
  readonly id: HostId;
  readonly gpuCount: number;
  tokens: Tokens | undefined;
  /** By `keyOf`. */
  launches: Map<string, Launch>;
  contact: Contact | undefined;
  /** When its last silence ended, by the time since the boot; long ago, where the agent knows of none. */
  backAtMs: number;
  /** When the server gave its agent the last question what runs that it has answered, or the last run that it has refused, by the server's clock; long ago, where there is none. */
  answeredFromMs: number;
  /** A mask. */
  brokenGpus: number;
  readonly bootId: () => number;
  readonly sinceBootMs: () => number;
  readonly clock: () => HostClock;
  readonly setClocks: HostClocks["set"];
  readonly disk: DiskWrites;
  /** Processes by their launch: the truth. */
  readonly running: ReadonlyMap<string, RunOrder>;
  readonly startRanks: (launch: Launch, fateOf: (task?: number) => Fate) => void;
  /** Ends them within their grace; with a cause: as a failure of the host. */
  readonly killRanks: (launch: string, graceMs: number, cause?: RunCause) => Task<boolean>;
  /** Ends a task of a batch that runs. */
  readonly killTask: (launch: Launch, task: number) => Task<void>;
  readonly note: (contact: Contact) => void;
  readonly reboot: () => void;
  /** The state folder is gone, or the folders of its launches, with its tokens left. */
  readonly lose: (what: "disk" | "launches") => void;
  /** Of what was written last a part is gone, and a part cannot be read; two bits of the pattern a launch. */
  readonly tear: (pattern: number) => void;
  agent: Process | undefined;
}

export interface HostPorts {
  readonly kernel: Kernel;
  readonly wallMs: () => number;
  readonly rules: AgentRules;
  readonly witness: Witness;
}

const KILL_MS = 200;
const FRESH = { backAtMs: -Infinity, answeredFromMs: -Infinity, brokenGpus: 0 };
const TORN_BITS = 16;

export function createHost(
  { kernel, wallMs: trueWallMs, rules, witness }: HostPorts,
  id: HostId,
  gpuCount: number,
): Host {
  let bootId = 1;
  const clocks = createClocks(kernel, trueWallMs);
  const { wallMs, sinceBootMs } = clocks;
  const running = new Map<string, RunOrder>();
  const disk = createDiskWrites(kernel, rules, () => host);
  const batches = createBatches({
    ...{ kernel, wallMs, witness, host: id },
    isRunning: (order) => running.get(keyOf(order)) === order,
    isNoted: (launch) => host.launches.get(keyOf(launch.order)) === launch,
    whenItTakes: disk.whenItTakes,
    onOver: (order) => end(order, "completed"),
  });

  const end = (order: RunOrder, how: "completed" | "failed" | "killed", cause?: RunCause): void => {
    const key = keyOf(order);
    running.delete(key);
    batches.drop(order, host.launches.get(key));
    witness.ended(id, order, cause === undefined ? how : "killed");
    kernel.tell(id, id, () => `processes of ${key} are gone: ${how}`);
    host.disk.whenItTakes(() => {
      const launch = host.launches.get(key);
      if (launch?.order.token !== order.token || launch.report !== undefined) return;
      if (launch.phase === "over") return;
      launch.phase = "over";
      launch.report = reportOf(launch, how, { cause, nowMs: wallMs() });
    });
  };

  const host: Host = {
    id,
    gpuCount,
    tokens: undefined,
    launches: new Map(),
    contact: undefined,
    ...FRESH,
    agent: undefined,
    bootId: () => bootId,
    sinceBootMs,
    clock: () => ({ sinceBootMs: sinceBootMs(), wallMs: wallMs(), bootId }),
    setClocks: clocks.set,
    disk,
    running,
    startRanks: (launch, fateOf) => {
      const { order } = launch;
      launch.phase = "started";
      launch.bootId = bootId;
      launch.startedAtMs = wallMs();
      const key = keyOf(order);
      running.set(key, order);
      kernel.tell(id, id, () => `starts ${key} of ${order.jobId}`);
      witness.started(id, order);
      if (order.taskBatch !== undefined) return batches.begin(launch, fateOf);
      const fate = fateOf();
      kernel.after(fate.afterMs, () => {
        if (running.get(key) === order) end(order, fate.isGood ? "completed" : "failed");
      });
    },
    *killRanks(key, graceMs, cause) {
      const order = running.get(key);
      if (order === undefined) return false;
      yield* sleep(kernel, Math.min(graceMs, kernel.random.exponential(KILL_MS)) + 1);
      if (running.get(key) === order) end(order, cause === undefined ? "killed" : "failed", cause);
      return true;
    },
    killTask: batches.kill,
    note: createFenceWatch(kernel, rules, { host: () => host, end: endAll }),
    reboot: () => {
      for (const order of [...running.values()]) {
        running.delete(keyOf(order));
        batches.drop(order, undefined);
        witness.ended(id, order, "killed");
      }
      bootId += 1;
      clocks.reboot();
      disk.losePower();
      host.backAtMs = -Infinity;
    },
    lose: (what) => {
      host.launches = new Map();
      if (what === "disk") loseState(host);
      witness.forgot(id);
    },
    tear: (pattern) => tear(host, witness, pattern),
  };
  return host;

  /** The host was cut off. */
  function endAll(silence: Silenced): void {
    if (running.size > 0) witness.cutOff(id, silence);
    const cause = { code: "HOST_LOST", message: "cut off", atMs: wallMs() } as const;
    for (const order of [...running.values()]) end(order, "failed", cause);
    for (const launch of host.launches.values())
      if (launch.phase === "stored" && disk.takesFiles()) callOff(launch, wallMs());
  }
}

function loseState(host: Host): void {
  host.disk.loseTokens();
  host.contact = undefined;
}

function tear(host: Host, witness: Witness, pattern: number): void {
  [...host.launches].forEach(([key, launch], at) => {
    const fate = (pattern >>> ((2 * at) % TORN_BITS)) & 3;
    if (fate === 0) {
      host.launches.delete(key);
      witness.lost(host.id, key);
    } else if (fate === 1 && launch.report === undefined) launch.phase = "over";
  });
  if (pattern % 4 !== 3) return;
  host.disk.loseTokens();
  witness.unlearnt(host.id);
}

/** It may not start any more. */
export function callOff(launch: Launch, nowMs: number): void {
  launch.phase = "over";
  launch.report = {
    host: launch.order.host,
    hasStarted: false,
    endedAtMs: nowMs,
    ranks: [],
    end: "stopped",
    cause: { code: "STOPPED", message: "called off", atMs: nowMs },
  };
}

/** Of a launch whose supervisor is gone, or that has ended. */
export function reportOf(
  launch: Launch,
  how: "completed" | "failed" | "killed" | "lost",
  { cause, nowMs }: { readonly cause?: RunCause | undefined; readonly nowMs: number },
): RunReport {
  const { order, startedAtMs, turns } = launch;
  const isAnyStarted = [...turns.values()].some((turn) => turn.startedAtMs !== undefined);
  const common = {
    host: order.host,
    hasStarted: order.taskBatch === undefined || isAnyStarted,
    ...batchEnds(launch),
    ...(startedAtMs !== undefined && { startedAtMs }),
    endedAtMs: nowMs,
    ranks: [],
  };
  switch (how) {
    case "completed":
      return { ...common, end: "completed" };
    case "killed":
      return {
        ...common,
        end: "stopped",
        cause: { code: "STOPPED", message: "stopped", atMs: nowMs },
      };
    case "lost":
      return {
        ...common,
        end: "failed",
        cause: { code: "HOST_LOST", message: "the host was restarted", atMs: nowMs },
      };
    case "failed":
      return {
        ...common,
        end: "failed",
        cause: cause ?? { code: "PROCESS_EXITED", message: "exit code 1", atMs: nowMs },
      };
  }
}
