/**
 * @file Starts the supervisor of a launch whose plan is on the disk, in a container of its own.
 *
 * The container is on the disk before the first process: whoever ends the launch finds all of it. Nothing here knows of leases or orders, so
 * that a bench can start the same supervisor under the same containment without a scheduler.
 */

import {
  containerFor,
  groupsOf,
  readContainer,
  type Container,
  type Containment,
} from "../containment/container.ts";
import type { LaunchLimits } from "../containment/limits.ts";
import { readJson, replaceJson, replaceText } from "../folder/json-files.ts";
import { LAUNCH_MARK, OWNER_MARK, type LaunchPlan } from "../folder/launch-files.ts";
import type { Starter } from "../ports/starter.ts";
import { planWords } from "./plan-words.ts";
import { untilPhase, type Launch, type Phase } from "./local-run.ts";

export interface ContainerOwner {
  readonly containment: Containment;
  /** Tells fleets and hosts of one machine apart. */
  readonly owner: string;
}

export interface LimitedContainer extends ContainerOwner {
  readonly limits?: LaunchLimits | undefined;
  /** The devices of the host's other GPUs. */
  readonly foreign?: readonly string[];
  /** Array tasks share the launch. */
  readonly isBatch?: boolean;
}

export interface Supervisors {
  /** The compiled entry of the shim. */
  readonly shimPath: string;
  /** The native supervisor, where there is one (`native-supervisor.ts`). */
  readonly nativePath?: string | undefined;
  /** Starts the native one cheaper than this process can. */
  readonly starter?: Starter | undefined;
}

export interface ShimStart extends ContainerOwner, Supervisors {
  /** The agent's own environment; little of it is passed on. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly leaseId: string;
  /** For its input; see `shim/secret-input.ts`. */
  readonly secrets?: string;
}

/** The groups for a launch with these files, made or not. */
export const launchGroups = (launch: Launch, owned: LimitedContainer): readonly string[] =>
  groupsOf(containerOf(launch, owned));

const containerOf = (
  { files }: Launch,
  { containment, owner, limits, foreign }: LimitedContainer,
): Container =>
  containerFor(containment, {
    owner,
    launchDir: files.dir,
    ...(limits !== undefined && { limits }),
    ...(foreign !== undefined && { foreign }),
  });

/** Throws the system's error when a group cannot be made. */
export function makeContainer(launch: Launch, owned: LimitedContainer): void {
  const { files, system } = launch;
  const container = containerOf(launch, owned);
  for (const group of groupsOf(container)) system.groups.make(group);
  if ("group" in container) {
    const { bound, memory, cpu, devices } = container;
    if (bound !== undefined) system.groups.limitPids(bound.group, bound.pids);
    // A gang without one of its processes is of no use; the tasks of a batch are nothing to each other.
    if (memory !== undefined)
      system.groups.limitMemory(memory.group, {
        bytes: memory.bytes,
        endsWhole: owned.isBatch !== true,
      });
    if (cpu !== undefined)
      system.groups.weighCpus(cpu.group, {
        cpus: cpu.cpus,
        of: owned.limits?.hostCpus ?? cpu.cpus,
      });
    if (devices !== undefined) system.groups.denyDevices(devices.group, devices);
  }
  replaceJson(system.files, files.container, container);
}

const BEGUN = ["starting", "running", "ended", "lost", "revoked"] as const;

/** Returns when the shim, or an order to stop, has the claim; undefined when the shim ended without it. */
export async function startShim(launch: Launch, order: ShimStart): Promise<Phase | undefined> {
  const { containment, owner, shimPath, nativePath, starter, env, leaseId, secrets } = order;
  const { files, system } = launch;
  const own = {
    PATH: env["PATH"],
    HOME: env["HOME"],
    ORBWEAVER_LEASE_ID: leaseId,
    [LAUNCH_MARK]: files.dir,
    [OWNER_MARK]: owner,
  };
  const native = nativePath !== undefined && isNative(launch) ? nativePath : undefined;
  if (native !== undefined && secrets === undefined && starter !== undefined) {
    const gone = new AbortController();
    const place = { folder: files.dir, output: files.shimLog };
    const isTaken = starter.start({ ...place, env: own, onEnd: () => gone.abort() });
    const phase = isTaken ? await untilPhase(launch, BEGUN, gone.signal) : undefined;
    // Nobody knows what one that is gone has begun: the claim lets no second supervisor start anything.
    if (phase !== undefined) return phase;
  }
  const gone = new AbortController();
  system.processes.start({
    command:
      native !== undefined
        ? [native, files.dir]
        : [
            ...(containment.kind === "subreaper" ? containment.prefix : []),
            process.execPath,
            shimPath,
            files.dir,
          ],
    cwd: files.dir,
    env: own,
    output: files.shimLog,
    ...(secrets !== undefined && { input: secrets }),
    isLeftBehind: true,
    onEnd: () => gone.abort(),
    onNotStarted: () => gone.abort(),
  });
  return await untilPhase(launch, BEGUN, gone.signal);
}

/** Writes the plan down for the native supervisor; false where the shim in Node is to run it. */
function isNative({ files, system: { files: disk } }: Launch): boolean {
  const plan = readJson<LaunchPlan>(disk, files.plan);
  const words = plan && planWords(plan, readContainer(disk, files));
  if (words === undefined) return false;
  replaceText(disk, files.planWords, words);
  return true;
}
