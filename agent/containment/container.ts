/**
 * @file The container of a launch: the means by which each of its processes is found and killed, whatever it does to its environment, its
 * session or its parents.
 *
 * From the best down. `cgroup2`, `cgroup1`: the kernel keeps the group. `subreaper`: the shim inherits every orphan of its ranks, so descent
 * finds them while the shim lives. `marks`: groups, sessions, descent and the marks of the environment, which every container has beside its own.
 * The container of a launch is on the disk before its first process, so that any later agent finds the same one. Loaded by the shim.
 */

import { basename, join } from "node:path";
import { readJson } from "../folder/json-files.ts";
import type { LaunchLimits } from "./limits.ts";
import { BATCHES, type LaunchFiles } from "../folder/launch-files.ts";
import type { Files } from "../ports/files.ts";

export const CONTAINER_KINDS = ["cgroup2", "cgroup1", "subreaper", "marks"] as const;
export type ContainerKind = (typeof CONTAINER_KINDS)[number];

export type Container =
  | {
      readonly kind: "cgroup2" | "cgroup1";
      /** The folder of the launch's own group. */
      readonly group: string;
      /** A second group where another hierarchy counts processes; the same one where it counts them itself. */
      readonly bound?: { readonly group: string; readonly pids: number };
      /** Where the kernel limits the memory of the launch, in the group itself or in another hierarchy. */
      readonly memory?: { readonly group: string; readonly bytes: number };
      /** Where the launch has its share of the processors. */
      readonly cpu?: { readonly group: string; readonly cpus: number };
      /** Where the kernel refuses to open the host's other GPUs, by major and minor number. */
      readonly devices?: {
        readonly group: string;
        readonly denied: readonly string[];
        readonly filter?: string;
      };
    }
  | { readonly kind: "subreaper" | "marks" };

/** The means that a host's agent has found to work on its machine. */
export type Containment =
  | {
      readonly kind: "cgroup2" | "cgroup1";
      /** The folder under which each launch gets a group. */
      readonly base: string;
      /** The most processes and threads of one launch, and the folder under which they are counted. */
      readonly bound?: { readonly base: string; readonly pids: number };
      /** The folders under which memory is limited, and processors are shared. */
      readonly memory?: { readonly base: string };
      readonly cpu?: { readonly base: string };
      /** Where devices are refused, and the program that does so where no file of the group does (`agent/native/device-filter.c`). */
      readonly devices?: { readonly base: string; readonly filter?: string };
    }
  /** Words before a command that make it the reaper of its orphans, and then become it. */
  | { readonly kind: "subreaper"; readonly prefix: readonly string[] }
  | { readonly kind: "marks" };

/** One in which the kernel keeps groups. */
export type GroupContainment = Extract<Containment, { readonly base: string }>;

export const MARKS_ALONE: Containment = Object.freeze({ kind: "marks" });

export interface LaunchPlace {
  /** Tells fleets and hosts of one machine apart. */
  readonly owner: string;
  readonly launchDir: string;
  readonly limits?: LaunchLimits;
  /** The devices of the host's other GPUs. */
  readonly foreign?: readonly string[];
}

/** The container of the launch with this folder; limits that the machine cannot keep are left out. */
export function containerFor(
  containment: Containment,
  { owner, launchDir, limits = {}, foreign = [] }: LaunchPlace,
): Container {
  if (!("base" in containment)) return { kind: containment.kind };
  const { kind, base, bound, memory, cpu, devices } = containment;
  const { memoryBytes, cpus } = limits;
  const groupIn = (dir: string): string => join(ownerGroup(dir, owner), groupName(launchDir));
  return {
    kind,
    group: groupIn(base),
    ...(bound !== undefined && { bound: { group: groupIn(bound.base), pids: bound.pids } }),
    ...(memory !== undefined &&
      memoryBytes !== undefined && { memory: { group: groupIn(memory.base), bytes: memoryBytes } }),
    ...(cpu !== undefined && cpus !== undefined && { cpu: { group: groupIn(cpu.base), cpus } }),
    ...(devices !== undefined &&
      foreign.length > 0 && {
        devices: {
          group: groupIn(devices.base),
          denied: foreign,
          ...(devices.filter !== undefined && { filter: devices.filter }),
        },
      }),
  };
}

/**
 * The kind, and what it keeps: `cgroup2+processes+memory+cpus+gpus`. GPUs are kept where the kernel refuses those of others; `ids` says that launches
 * are told of theirs by id, as `hasIds` says of the machine.
 */
export const containmentWord = (containment: Containment, hasIds = false): string => {
  const { bound, memory, cpu, devices } =
    "base" in containment ? containment : ({} as Partial<GroupContainment>);
  const kept = [
    ...[bound && "processes", memory && "memory", cpu && "cpus"],
    ...(hasIds ? [devices && "gpus", "ids"] : []),
  ];
  return [containment.kind, ...kept.filter((each) => each !== undefined)].join("+");
};

/** The folders of the containment under which groups of launches lie. */
export const basesOf = (containment: Containment): readonly string[] =>
  "base" in containment
    ? distinct(
        [
          ...[containment, containment.bound, containment.memory],
          ...[containment.cpu, containment.devices],
        ],
        (each) => each?.base,
      )
    : [];

/** Holds the groups of all hosts of the machine. */
export const ownersIn = (base: string): string => join(base, "orbweaver");

/** Holds the groups of all launches of one host. */
export const ownerGroup = (base: string, owner: string): string => join(ownersIn(base), owner);

/** `lease-7`, or `lease-7.2` for its second batch. */
export function groupName(launchDir: string): string {
  const parts = launchDir.split("/");
  const isBatch = parts.at(-2) === BATCHES;
  return isBatch ? `${parts.at(-3) ?? ""}.${parts.at(-1) ?? ""}` : basename(launchDir);
}

/** Older agents wrote none: their launches had marks alone. */
export const readContainer = (files: Files, { container }: LaunchFiles): Container =>
  readJson<Container>(files, container) ?? { kind: "marks" };

/** The groups that the kernel keeps for the container; the first holds every process of it. */
export const groupsOf = (container: Container): readonly string[] =>
  "group" in container
    ? distinct(
        [container, container.bound, container.memory, container.cpu, container.devices],
        (each) => each?.group,
      )
    : [];

const distinct = <Part>(
  parts: readonly Part[],
  pathOf: (part: Part) => string | undefined,
): readonly string[] => [...new Set(parts.flatMap((part) => pathOf(part) ?? []))];
