/**
 * @file Watches the health of an agent's hosts, and drains them in its fleet: where jobs of different tenants fail fast in a row, and where the
 * operator's check fails, or a program of theirs around a launch, or where a GPU is broken or a disk is full.
 *
 * It uses the operators' own updates, `drain` and `undrain`, and looks at the ledger first: a host that anybody drained before keeps that reason. What an
 * operator orders between look and update is kept by the fleet, which refuses an update that goes by other drains than there are.
 */

import { randomInt, randomUUID } from "node:crypto";
import { isGrpcServiceError, WorkflowUpdateFailedError, type Client } from "@temporalio/client";
import type { UpdateDefinition } from "@temporalio/common";
import { settled } from "../client/orders.ts";
import {
  afterLaunch,
  evidenceText,
  instantText,
  launchWord,
  type FastFailure,
} from "../agent/health/black-hole.ts";
import type { HostGpu } from "../agent/containment/host-gpus.ts";
import { asDescribed, gpuOrders, ownDrains, type GpuCounts } from "../agent/health/gpu-service.ts";
import {
  CHECK_FAILED,
  beginningOf,
  GPU_FAULT,
  keepChecking,
  type HealthCheckPorts,
} from "../agent/health/health-checks.ts";
import { createDiskCheck, DISK_CHECK_EVERY_MS, DISK_FULL } from "../agent/health/disk-check.ts";
import {
  leaseChecker,
  type LeaseCheckPorts,
  type LeaseMoment,
} from "../agent/health/lease-checks.ts";
import { openRests } from "../agent/health/rests.ts";
import { leftOnGpus, withinPatience } from "../agent/health/left-on-gpus.ts";
import { asideKeeper, SET_ASIDE, type SeenFleet } from "../agent/health/set-aside.ts";
import { askProgram } from "../agent/system/gpu-driver.ts";
import { runCheckProgram } from "../agent/system/check-program.ts";
import { nodeClock } from "../agent/system/node-clock.ts";
import { nodeFiles } from "../agent/system/node-files.ts";
import { nodeProcesses } from "../agent/system/node-processes.ts";
import { watchGpuUse } from "../agent/telemetry/gpu-use.ts";
import { GPU_USE_WORDS, TENSOR_WORDS } from "../domain/fleet/parse-gpu-use.ts";
import {
  GPU_PROCESS_WORDS,
  parseGpuProcesses,
  type GpuProcess,
} from "../domain/fleet/parse-gpu-processes.ts";
import { evidenceHead } from "../domain/fleet/left-in-service.ts";
import type { PresenceBeat } from "../domain/lease/gpu-use.ts";
import type { HostGpus } from "../domain/lease/lease.ts";
import type { HostId } from "../domain/values/ids.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { AgentHost, HostSetup } from "../agent/runs/agent-host.ts";
import {
  drainGpusUpdate,
  drainUpdate,
  fleetWorkflowId,
  ledgerQuery,
  undrainGpusUpdate,
  undrainUpdate,
} from "../protocol/messages.ts";
import type { Proven } from "../protocol/word-proof.ts";
import { unpackLedger } from "../scheduling/ledger/codec.ts";
import { GPU_DRAIN_RULES } from "../scheduling/ledger/rules/gpu-drains.ts";
import { checkGpus, faultFinder, ownDriver, textOf, type GpuRounds } from "./gpu-health.ts";
import type { HealthRules } from "./health-file.ts";
import type { ServedHost } from "./host-resources.ts";

export interface HealthWatch {
  /** What this host is opened with: it takes the ends of its launches, and runs the operator's programs around them. */
  on(host: HostId): Required<Pick<HostSetup, "settled" | "checkLease" | "findFault">>;
  /** Runs the first check, and then again and again. Returns when the first has ended, and soon all the same where it takes long. */
  begin(served: readonly AgentHost[]): Promise<void>;
  /** What the agent's next heartbeat tells of its GPUs; undefined while there is nothing. */
  beat(): PresenceBeat | undefined;
}

export interface HealthSetup {
  /** Nothing is watched without. */
  readonly health?: HealthRules;
  readonly client: Client;
  readonly fleet: string;
  readonly hosts: readonly Pick<ServedHost, "id" | "gpuCount" | "gpus" | "gpusIn">[];
  /** With less room on its disk a host refuses launches. */
  readonly minFreeBytes: number;
  readonly onNote?: (note: string) => void;
}

const CALL_MS = 10_000;
const MOST_WAIT_MS = 5_000;
/** Evidence of an hour ago is shown no longer, as it counts no longer. */
const LEFT_MS = 3_600_000;
/** PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED. */
const REFUSALS: readonly number[] = [7, 12, 16];

const isRefusal = (error: unknown): boolean =>
  error instanceof WorkflowUpdateFailedError ||
  (error instanceof OrbweaverError && error.code !== "NO_CONNECTION") ||
  (isGrpcServiceError(error) && REFUSALS.includes(Number(error.code)));

export function watchHealth(setup: HealthSetup, closing: AbortSignal): HealthWatch {
  const { health, onNote = () => undefined } = setup;
  const hosts = setup.hosts.map(({ id }) => id);
  const rows = new Map<HostId, readonly FastFailure[]>();
  const fleet = fleetOrders(setup);
  const opened = new Map<HostId, AgentHost>();
  const gpusNow = (host: HostId): readonly HostGpu[] =>
    opened.get(host)?.gpus ?? hostGpusOf(host, setup);
  const use = hasMachine(setup) ? watchUse(setup, { closing, gpusNow }) : () => undefined;
  const drainOpen = async (reason: string): Promise<void> => {
    const seen = await fleet.look();
    await fleet.drain(
      hosts.filter((host) => seen.hosts.get(host)?.isDrained !== true),
      reason,
    );
  };
  const setupOf = (host: HostId): Pick<ServedHost, "gpusIn"> =>
    setup.hosts.find(({ id }) => id === host) ?? {};
  let ended = 0;
  let gpus: GpuRounds | undefined;
  const undrain = async (of: readonly HostId[], prefix: string): Promise<void> => {
    await fleet.undrain(of, prefix);
    ended += of.length;
  };
  const endDrains = async (prefix: string, of: readonly HostId[] = hosts): Promise<void> => {
    const seen = await fleet.look();
    const drained = of.filter((host) => {
      const { isDrained = false, drainReason } = seen.hosts.get(host) ?? {};
      return isDrained && drainReason?.startsWith(prefix) === true;
    });
    await undrain(drained, prefix);
    const parts = ownDrains(of, seen.hosts, prefix);
    await fleet.undrainGpus(parts, prefix);
    ended += parts.length;
  };
  /** Of a fleet whose rules know no drains of GPUs, the whole hosts. */
  const drainGpus = async (out: ReadonlyMap<number, string>, reason: string): Promise<void> => {
    const seen = await fleet.look();
    if (seen.rules < GPU_DRAIN_RULES) return drainOpen(reason);
    const of = beginningOf(GPU_FAULT);
    const placed = setup.hosts.map((host) => ({ ...host, gpus: gpusNow(host.id) }));
    const orders = gpuOrders(asDescribed(placed, seen.gpuCounts), seen.hosts, { out, of });
    await fleet.drain(orders.drainHosts, reason);
    for (const { gpus, why } of orders.drain)
      await fleet.drainGpus([gpus], `${of}${instantText(nodeClock.nowMs())}: ${why}`);
    await fleet.undrainGpus(orders.undrain, of);
    await undrain(orders.undrainHosts, of);
  };
  const left = new Map<HostId, { readonly why: string; readonly untilMs: number }>();
  const onLeft = (host: HostId, reason: string): void => {
    const why = evidenceHead(reason.slice(SET_ASIDE.length));
    left.set(host, { why, untilMs: nodeClock.elapsedMs() + LEFT_MS });
  };
  const setAside = asideKeeper({
    clock: nodeClock,
    closing,
    onNote,
    look: fleet.look,
    drain: (host, reason) => fleet.drain([host], reason),
    undrain: (host, of) => undrain([host], of),
    isRefusal,
    waitMs: () => randomInt(MOST_WAIT_MS),
  });
  const rests = openRests({
    ...{ clock: nodeClock, closing, onNote },
    drain: (host, reason) => fleet.drain([host], reason),
    undrain: (of, prefix) => endDrains(prefix, of),
    isRefusal,
  });
  const takeOut = async (host: HostId, reason: string, moment?: LeaseMoment): Promise<void> => {
    if ((await setAside(host, reason)) === "aside") return;
    if (moment === "prologue") await rests.begin(host, reason.slice(SET_ASIDE.length));
    else onLeft(host, reason);
  };
  return {
    beat: () => withLeft(use(), left),
    on: (host) => ({
      findFault: faultFinder(() => gpus, {
        hostGpus: () => gpusNow(host),
        mostMs: CALL_MS,
        closing,
      }),
      settled: (order, report) => {
        if (health?.isSetAside !== true) return;
        const { row, isEvidence } = afterLaunch(rows.get(host) ?? [], launchWord(order, report));
        rows.set(host, isEvidence ? [] : row);
        if (isEvidence) void takeOut(host, evidenceText(row, nodeClock.nowMs()));
      },
      checkLease: leaseChecker(health ?? {}, {
        clock: nodeClock,
        closing,
        ...lookOf(host, setup),
        run: runCheckProgram,
        onReady: () => rests.passed(host),
        onFailed: (reason, moment) => {
          if (health?.isSetAside === true) void takeOut(host, reason, moment);
          else {
            onNote(`${host}: not drained, as its health file says, though to be ${reason}`);
            onLeft(host, reason);
          }
        },
      }),
    }),
    begin: async (served) => {
      const told: Told = {
        ...{ clock: nodeClock, closing, onNote },
        ...{ drain: drainOpen, undrain: endDrains, ended: () => ended },
      };
      for (const host of served) opened.set(host.id, host);
      if (health === undefined) return;
      void rests.endOld(hosts);
      await Promise.all([
        checkByProgram(health.check, told),
        checkDisks(served, setup.minFreeBytes, told),
        ...(hasGpus(setup)
          ? [
              checkGpus(served, {
                ...told,
                drainGpus,
                setupOf,
                onRounds: (rounds) => (gpus = rounds),
              }),
            ]
          : []),
      ]);
    },
  };
}

/** With the hosts that were left in service of late; as it is where there are none. */
function withLeft(
  beat: PresenceBeat | undefined,
  left: ReadonlyMap<HostId, { readonly why: string; readonly untilMs: number }>,
): PresenceBeat | undefined {
  const nowMs = nodeClock.elapsedMs();
  const fresh = [...left].flatMap(([host, { why, untilMs }]) =>
    nowMs < untilMs ? [[host, why] as const] : [],
  );
  if (fresh.length === 0) return beat;
  return { use: {}, ...beat, left: Object.fromEntries(fresh) };
}

type Told = Omit<HealthCheckPorts, "runCheck">;

async function checkByProgram(check: HealthRules["check"], told: Told): Promise<void> {
  if (check === undefined) return;
  const { command, everyMs } = check;
  const [name = ""] = command;
  const repeated = { prefix: CHECK_FAILED, name, everyMs };
  await keepChecking(repeated, { ...told, runCheck: (closing) => runCheckProgram(check, closing) });
}

async function checkDisks(
  served: readonly AgentHost[],
  minFreeBytes: number,
  told: Told,
): Promise<void> {
  const dirs = served.map(({ layout }) => layout.dir);
  const check = createDiskCheck({ files: nodeFiles, dirs, minFreeBytes });
  await keepChecking(
    { prefix: DISK_FULL, everyMs: DISK_CHECK_EVERY_MS },
    { ...told, runCheck: () => Promise.resolve(check()) },
  );
}

/** Those of a machine that shows its own; made-up GPUs are sound. */
const hasGpus = ({ health, hosts }: HealthSetup): boolean =>
  health?.isGpuChecked === true && hosts.some(({ gpus = [] }) => gpus.length > 0);

/** Whether the hosts are this machine, and not made up, and its GPUs may be looked at. */
const hasMachine = ({ health, hosts }: HealthSetup): boolean =>
  health?.isGpuChecked === true && hosts.some(({ gpus }) => gpus !== undefined);

function watchUse(
  { hosts }: HealthSetup,
  {
    closing,
    gpusNow,
  }: {
    readonly closing: AbortSignal;
    readonly gpusNow: (host: HostId) => readonly HostGpu[];
  },
): HealthWatch["beat"] {
  const view = ownDriver();
  return watchGpuUse({
    ...{ clock: nodeClock, closing, hosts },
    uuidsOf: (host) => gpusNow(host).map(({ uuid }) => uuid),
    askDriver: () => textOf(view, GPU_USE_WORDS),
    askTensor: () => askProgram(view.path, ["dcgmi", ...TENSOR_WORDS]),
  });
}

/** Its GPUs, and how the driver is asked who computes on them: not of instances of MIG, of which it names the whole GPU alone. */
function lookOf(host: HostId, setup: HealthSetup): Pick<LeaseCheckPorts, "hostGpus" | "driver"> {
  const hostGpus = hostGpusOf(host, setup);
  const isAsked =
    hasGpus(setup) && hostGpus.length > 0 && hostGpus.every(({ gpu }) => gpu === undefined);
  if (!isAsked) return { hostGpus };
  const view = ownDriver();
  const answer = withinPatience(() => textOf(view, GPU_PROCESS_WORDS), nodeClock);
  const computing = async (): Promise<readonly GpuProcess[]> => {
    try {
      return parseGpuProcesses((await answer()) ?? "");
    } catch (error) {
      // A driver that does not answer is a fault of the machine, which the check of its GPUs finds.
      setup.onNote?.(`${host}: who computes on its GPUs is not known: ${String(error)}`);
      return [];
    }
  };
  const ports = { clock: nodeClock, processes: nodeProcesses, hostGpus, computing };
  return { hostGpus, driver: { computing, leftOnGpus: (launch) => leftOnGpus(launch, ports) } };
}

const hostGpusOf = (host: HostId, { hosts }: HealthSetup): readonly HostGpu[] =>
  hosts.find(({ id }) => id === host)?.gpus ?? [];

function fleetOrders({ client, fleet }: HealthSetup) {
  const workflow = client.workflow.getHandle(fleetWorkflowId(fleet));
  const withinTime = <T>(call: () => Promise<T>): Promise<T> =>
    client.withAbortSignal(AbortSignal.timeout(CALL_MS), call);
  /** A fleet that asks for proof takes every order, and says in its next turn what became of it. Throws where it refuses. */
  const give = async <Order>(
    update: UpdateDefinition<unknown, Proven<Order>>,
    order: Order,
  ): Promise<void> => {
    const updateId = randomUUID();
    const answer = await withinTime(() =>
      workflow.executeUpdate(update, { updateId, args: [order] }),
    );
    const { workflowId } = workflow;
    if (answer === null) await settled({ client, workflowId, subject: `fleet ${fleet}` }, updateId);
  };
  return {
    look: async (): Promise<SeenFleet & { readonly gpuCounts: GpuCounts }> => {
      const packed = await withinTime(() => workflow.query(ledgerQuery));
      const { hosts, shape, applyVersion: rules } = unpackLedger(packed);
      const gpuCounts = new Map(
        shape.clusters.flatMap((cluster) =>
          cluster.hosts.map(({ id, gpuCount }) => [id, gpuCount] as const),
        ),
      );
      return { hosts, hostCount: gpuCounts.size, rules, gpuCounts };
    },
    drain: async (hosts: readonly HostId[], reason: string): Promise<void> => {
      if (hosts.length > 0) await give(drainUpdate, { hosts, reason, isNew: true });
    },
    drainGpus: (gpus: readonly HostGpus[], reason: string): Promise<void> =>
      give(drainGpusUpdate, { gpus, reason, isNew: true }),
    undrainGpus: async (gpus: readonly HostGpus[], of: string): Promise<void> => {
      if (gpus.length > 0) await give(undrainGpusUpdate, { gpus, of });
    },
    undrain: async (hosts: readonly HostId[], of: string): Promise<void> => {
      if (hosts.length > 0) await give(undrainUpdate, { hosts, of });
    },
  };
}
