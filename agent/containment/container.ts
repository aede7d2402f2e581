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
    }
  /** Words before a command that make it the reaper of its orphans, and then become it. */
  | { readonly kind: "subreaper"; readonly prefix: readonly string[] }
  | { readonly kind: "marks" };

export const MARKS_ALONE: Containment = Object.freeze({ kind: "marks" });

/** The container of the launch with this folder. `owner` tells fleets and hosts of one machine apart. */
export function containerFor(
  containment: Containment,
  owner: string,
  launchDir: string,
): Container {
  if (!("base" in containment)) return { kind: containment.kind };
  const { kind, base, bound } = containment;
  const groupIn = (dir: string): string => join(ownerGroup(dir, owner), groupName(launchDir));
  return {
    kind,
    group: groupIn(base),
    ...(bound !== undefined && { bound: { group: groupIn(bound.base), pids: bound.pids } }),
  };
}

/** Holds the groups of all launches of one host. */
export const ownerGroup = (base: string, owner: string): string => join(base, "orbweaver", owner);

/** `lease-7`, or `lease-7.2` for its second batch. */
function groupName(launchDir: string): string {
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
    ? [...new Set([container.group, container.bound?.group ?? container.group])]
    : [];
