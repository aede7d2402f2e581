/**
 * @file A host of the world: what its disk keeps, what runs on its GPUs, and the supervisors of its launches, which live without the agent.
 *
 * The truth about processes is here; the agent learns it by looking. A supervisor writes how its launch ended, and ends it when the host has been
 * cut off for its fence.
 */

import type { RunCause, RunOrder, RunReport } from "../../protocol/agent-contract.ts";
import type { HostId, LeaseId } from "../../domain/values/ids.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { sleep, type Process, type Task } from "../kernel/process.ts";
import type { AgentRules, HostClock } from "./agent-rules.ts";
import type { Contact, Launch, Tokens } from "./disk.ts";

/** How the processes of a launch would end by themselves. */
export interface Fate {
  readonly afterMs: number;
  readonly isGood: boolean;
}

/** Who hears of processes: the checker. */
export interface Witness {
  /** The host does not know any more what it was told and what it has started. */
  readonly forgot: (host: HostId) => void;
  readonly prepared: (host: HostId, order: RunOrder) => void;
  /** An order to stop was answered: nothing of the lease runs there, or ever will. */
  readonly stopped: (host: HostId, lease: LeaseId) => void;
  readonly started: (host: HostId, order: RunOrder) => void;
  readonly ended: (host: HostId, order: RunOrder, how: "completed" | "failed" | "killed") => void;
}

export interface Host {
  readonly id: HostId;
  readonly gpuCount: number;
  tokens: Tokens | undefined;
  launches: Map<LeaseId, Launch>;
  contact: Contact | undefined;
  /** When its last silence ended, by the time since the boot; long ago, where the agent knows of none. */
  backAtMs: number;
  readonly bootId: () => number;
  readonly sinceBootMs: () => number;
  readonly clock: () => HostClock;
  /** Processes by their lease: the truth. */
  readonly running: ReadonlyMap<LeaseId, RunOrder>;
  readonly startRanks: (launch: Launch, fate: Fate) => void;
  /** Ends them within their grace. */
  readonly killRanks: (lease: LeaseId, graceMs: number) => Task<boolean>;
  readonly note: (contact: Contact) => void;
  readonly reboot: () => void;
  /** The state folder is gone. */
  readonly loseDisk: () => void;
  agent: Process | undefined;
}

export interface HostPorts {
  readonly kernel: Kernel;
  readonly wallMs: () => number;
  readonly rules: AgentRules;
  readonly witness: Witness;
}

const KILL_MS = 200;

export function createHost(
  { kernel, wallMs, rules, witness }: HostPorts,
  id: HostId,
  gpuCount: number,
): Host {
  let bootId = 1;
  let bootAtMs = 0;
  const running = new Map<LeaseId, RunOrder>();

  const end = (order: RunOrder, how: "completed" | "failed" | "killed", cause?: RunCause): void => {
    const { leaseId } = order;
    running.delete(leaseId);
    witness.ended(id, order, how);
    kernel.tell(id, id, () => `processes of ${leaseId} are gone: ${how}`);
    const launch = host.launches.get(leaseId);
    if (launch?.order.token !== order.token || launch.report !== undefined) return;
    launch.phase = "over";
    launch.report = reportOf(launch, how, { cause, nowMs: wallMs() });
  };

  const host: Host = {
    id,
    gpuCount,
    tokens: undefined,
    launches: new Map(),
    contact: undefined,
    backAtMs: -Infinity,
    agent: undefined,
    bootId: () => bootId,
    sinceBootMs: () => kernel.nowMs() - bootAtMs,
    clock: () => ({ sinceBootMs: host.sinceBootMs(), wallMs: wallMs(), bootId }),
    running,
    startRanks: (launch, fate) => {
      const { order } = launch;
      launch.phase = "started";
      launch.bootId = bootId;
      launch.startedAtMs = wallMs();
      running.set(order.leaseId, order);
      kernel.tell(id, id, () => `starts ${order.leaseId} of ${order.jobId}`);
      witness.started(id, order);
      kernel.after(fate.afterMs, () => {
        if (running.get(order.leaseId) !== order) return;
        end(order, fate.isGood ? "completed" : "failed");
      });
    },
    *killRanks(lease, graceMs) {
      const order = running.get(lease);
      if (order === undefined) return false;
      yield* sleep(kernel, Math.min(graceMs, kernel.random.exponential(KILL_MS)) + 1);
      if (running.get(lease) === order) end(order, "killed");
      return true;
    },
    note: (contact) => {
      const { atSinceBootMs = contact.atSinceBootMs } = host.contact ?? {};
      if (contact.atSinceBootMs - atSinceBootMs > contact.terms.silenceMs)
        host.backAtMs = host.sinceBootMs();
      host.contact = contact;
      const dueMs = contact.atSinceBootMs + contact.terms.fenceMs - host.sinceBootMs();
      kernel.after(Math.max(0, dueMs) + contact.terms.silenceMs / 4, lookAtFence);
    },
    reboot: () => {
      for (const order of [...running.values()]) {
        running.delete(order.leaseId);
        witness.ended(id, order, "killed");
      }
      bootId += 1;
      bootAtMs = kernel.nowMs();
      host.backAtMs = -Infinity;
    },
    loseDisk: () => {
      host.tokens = undefined;
      host.launches = new Map();
      host.contact = undefined;
      witness.forgot(id);
    },
  };
  return host;

  /** The supervisors' own look: the agent may be dead. */
  function lookAtFence(): void {
    const { contact } = host;
    if (contact?.bootId !== bootId) return;
    if (!rules.isCutOff(contact, host.clock())) return;
    const cause = { code: "HOST_LOST", message: "cut off", atMs: wallMs() } as const;
    for (const order of [...running.values()]) end(order, "failed", cause);
    for (const launch of host.launches.values())
      if (launch.phase === "stored") callOff(launch, wallMs());
  }
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
  { order, startedAtMs }: Launch,
  how: "completed" | "failed" | "killed" | "lost",
  { cause, nowMs }: { readonly cause?: RunCause | undefined; readonly nowMs: number },
): RunReport {
  const common = {
    host: order.host,
    hasStarted: true,
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
