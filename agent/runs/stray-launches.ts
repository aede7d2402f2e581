/**
 * @file Ends, at an agent's start, the processes of launches that its state folder does not know: the folder was lost, or a file in it is broken.
 *
 * They are found by the groups of this host and by the owner's mark in the environment. Left alone they would run beside a second start of their
 * own job. Returns when none is left: an agent says hello only then. Launches that the folder knows are adopted as ever.
 * Cost: one look at the environment of all processes of the machine, however many hosts the agent serves.
 */

import { basename, join } from "node:path";
import { basesOf, groupsOf, ownerGroup, readContainer } from "../containment/container.ts";
import { isUserName } from "../containment/group-user.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { Processes } from "../ports/processes.ts";
import { LAUNCH_MARK, OWNER_MARK } from "../folder/launch-files.ts";
import type { AgentHost } from "./agent-host.ts";

/** Of one host. */
export interface StrayLaunches {
  readonly host: HostId;
  /** Processes that were killed. */
  readonly processes: number;
  /** Names of their groups, where the kernel keeps any. */
  readonly groups: readonly string[];
}

const LOOK_MS = 10;
const LOOK_MAX_MS = 1_000;

/** For each host that had any; all of them lie on one machine. */
export async function endStrays(hosts: readonly AgentHost[]): Promise<readonly StrayLaunches[]> {
  const ended = hosts.map((host) => ({
    host,
    pids: new Set<number>(),
    groups: new Set<string>(),
  }));
  const [first] = hosts;
  if (first === undefined) return [];
  const { clock, processes } = first.system;
  for (let pauseMs = LOOK_MS; ; pauseMs = Math.min(pauseMs * 2, LOOK_MAX_MS)) {
    const marked = markedOn(processes, hosts);
    let isLeft = false;
    for (const { host, pids, groups } of ended) {
      const found = killStrays(host, marked.get(host.owner) ?? []);
      for (const pid of found.pids) pids.add(pid);
      for (const group of found.groups) groups.add(basename(group));
      isLeft ||= found.pids.length > 0;
    }
    if (!isLeft) break;
    await clock.pause(pauseMs);
  }
  return ended
    .filter(({ pids }) => pids.size > 0)
    .map(({ host, pids, groups }) => ({
      host: host.id,
      processes: pids.size,
      groups: [...groups].sort(),
    }));
}

interface Marked {
  readonly pid: number;
  /** The folder of its launch. */
  readonly dir: string | undefined;
}

function killStrays(
  host: AgentHost,
  marked: readonly Marked[],
): { readonly pids: readonly number[]; readonly groups: readonly string[] } {
  const { groups, processes } = host.system;
  const known = knownLaunches(host);
  const strayGroups = groupsOn(host).filter((group) => !known.groups.has(group));
  const held = strayGroups.filter((group) => groups.pids(group).length > 0);
  const unknown = marked.flatMap(({ pid, dir }) =>
    dir !== undefined && known.dirs.has(dir) ? [] : [pid],
  );
  const pids = [...new Set([...held.flatMap(groups.pids), ...unknown])];
  for (const group of held) groups.kill(group);
  for (const pid of pids) processes.signal(pid, "SIGKILL");
  for (const group of strayGroups) groups.remove(group);
  return { pids, groups: held };
}

interface Known {
  readonly dirs: ReadonlySet<string>;
  readonly groups: ReadonlySet<string>;
}

function knownLaunches({ open, system }: AgentHost): Known {
  const runs = [...open.values()];
  return {
    dirs: new Set(runs.map(({ files }) => files.dir)),
    groups: new Set(runs.flatMap(({ files }) => groupsOf(readContainer(system.files, files)))),
  };
}

function groupsOn({ containment, owner, system }: AgentHost): readonly string[] {
  return basesOf(containment).flatMap((base) => {
    const dir = ownerGroup(base, owner);
    return system.groups
      .below(dir)
      .filter((name) => !isUserName(name))
      .map((name) => join(dir, name));
  });
}

/** By owner. Our own process may carry the mark of another agent, where one of its jobs runs an agent; it is left out. */
function markedOn(
  processes: Processes,
  hosts: readonly AgentHost[],
): ReadonlyMap<string, readonly Marked[]> {
  const { single } = processes;
  const found = new Map<string, Marked[]>(hosts.map(({ owner }) => [owner, []]));
  if (single !== undefined) {
    for (const pid of single.pids()) {
      const environment = single.environment(pid)?.toString("latin1").split("\0") ?? [];
      const owner = valueIn(environment, OWNER_MARK);
      if (owner === undefined) continue;
      found.get(owner)?.push({ pid, dir: valueIn(environment, LAUNCH_MARK) });
    }
    return found;
  }
  const rows = new Map(
    processes.all().flatMap((row) => (row.isZombie ? [] : [[row.pid, row] as const])),
  );
  for (const { owner, open } of hosts) {
    const owned = new Set(processes.marked(`${OWNER_MARK}=${owner}`, rows, undefined));
    owned.delete(processes.own().pid);
    if (owned.size === 0) continue;
    for (const { files } of open.values())
      for (const pid of processes.marked(`${LAUNCH_MARK}=${files.dir}`, rows, undefined))
        owned.delete(pid);
    found.get(owner)?.push(...[...owned].map((pid) => ({ pid, dir: undefined })));
  }
  return found;
}

const valueIn = (environment: readonly string[], name: string): string | undefined =>
  environment.find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1);
