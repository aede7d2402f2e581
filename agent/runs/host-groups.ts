/**
 * @file The groups of a host from the first launch to the agent's end, and those that agents which have ended left on this machine.
 *
 * An agent puts its name beside the groups of its launches before it makes one. A launch's group goes when its report is written; at the agent's end
 * go the rest and the name, unless a launch runs on. An agent that was killed leaves all of it: the next one that starts on this machine, of whatever
 * host or fleet, removes groups without a process whose agent has ended. Of launches that the state folder has as not settled, it leaves them: the
 * host's next agent reads there why they ended. What carries no name is not touched.
 */

import { join } from "node:path";
import {
  basesOf,
  groupName,
  groupsOf,
  ownerGroup,
  ownersIn,
  readContainer,
} from "../containment/container.ts";
import { isUserName, parseUser, userName, type GroupUser } from "../containment/group-user.ts";
import { launchFiles } from "../folder/launch-files.ts";
import type { Files } from "../ports/files.ts";
import { isAliveIn, type Processes } from "../ports/processes.ts";
import { leasesIn } from "../system/state-layout.ts";
import { batchDirsOf, type AgentHost } from "./agent-host.ts";

/** Says that this agent uses the groups of the host, where it has not said so. Throws the system's error. */
export function useGroups(host: AgentHost): void {
  for (const dir of ownDirs(host)) host.system.groups.make(join(dir, ownName(host)));
}

/** Takes over what a former agent of the host has left: launches that go on have their groups there. */
export function takeOverGroups(host: AgentHost): void {
  const { groups } = host.system;
  const own = ownName(host);
  for (const dir of ownDirs(host)) {
    const names = groups.below(dir);
    if (names.length > 0) groups.make(join(dir, own));
    for (const name of names)
      if (isUserName(name) && name !== own) groups.removeEmpty(join(dir, name));
    // Of a former release, which gave no names.
    if (names.length === 0) groups.removeEmpty(dir);
  }
}

/** At the agent's end, before another may serve the host. Launches that go on keep their groups, and the agent's name beside them. */
export function leaveGroups(host: AgentHost): void {
  const { groups, files } = host.system;
  const open = new Set(
    [...host.open.values()].flatMap((run) => groupsOf(readContainer(files, run.files))),
  );
  for (const dir of ownDirs(host)) {
    for (const name of groups.below(dir)) {
      const group = join(dir, name);
      if (isUserName(name) || open.has(group) || groups.pids(group).length > 0) continue;
      groups.remove(group);
    }
    const left = groups.below(dir);
    if (!left.every(isUserName)) continue;
    groups.removeEmpty(join(dir, ownName(host)));
    groups.removeEmpty(dir);
  }
}

/** For an agent's start, with all of its hosts: how many groups of launches were removed that others had left. */
export function removeLeftGroups(hosts: readonly AgentHost[]): number {
  const [first] = hosts;
  if (first === undefined) return 0;
  const { containment, system } = first;
  const own = new Set(hosts.map(({ owner }) => owner));
  let removed = 0;
  for (const dir of basesOf(containment).map(ownersIn)) {
    for (const name of system.groups.below(dir)) {
      if (own.has(name)) continue;
      if (isUserName(name)) removeTrial(join(dir, name), name, system);
      else removed += removeOf(join(dir, name), system);
    }
  }
  return removed;
}

type System = AgentHost["system"];

function removeTrial(group: string, name: string, { groups, processes }: System): void {
  if (isEnded(parseUser(name), processes)) groups.removeEmpty(group);
}

/** The groups of one host of somebody. */
function removeOf(dir: string, { groups, processes, files }: System): number {
  const launches = groups.below(dir).filter((name) => !isUserName(name));
  // After the launches: an agent puts its name there before it makes the first of them.
  const names = groups.below(dir).filter(isUserName);
  const users = names.map(parseUser);
  if (users.length === 0 || !users.every((user) => isEnded(user, processes))) return 0;
  const kept = launches.length === 0 ? new Set<string>() : unsettledOf(users, files);
  if (kept === undefined) return 0;
  let removed = 0;
  for (const name of launches) {
    const group = join(dir, name);
    if (kept.has(name) || groups.pids(group).length > 0) continue;
    if (groups.remove(group)) removed += 1;
  }
  if (!groups.below(dir).every((name) => names.includes(name))) return removed;
  for (const name of names) groups.removeEmpty(join(dir, name));
  groups.removeEmpty(dir);
  return removed;
}

/** Of another space of pids nobody here can say. */
const isEnded = (user: GroupUser | undefined, processes: Processes): boolean =>
  user !== undefined &&
  user.space === processes.space() &&
  !isAliveIn(processes, { ...user, bootId: processes.bootId() });

/** The names of the groups of launches that have no report; undefined where that cannot be said. */
function unsettledOf(
  users: readonly (GroupUser | undefined)[],
  disk: Files,
): ReadonlySet<string> | undefined {
  const names = new Set<string>();
  for (const user of users) {
    if (user?.stateDir === undefined) return undefined;
    const leases = leasesIn(user.stateDir);
    try {
      for (const leaseDir of disk.list(leases).map((name) => join(leases, name)))
        for (const dir of [leaseDir, ...batchDirsOf(disk, leaseDir)])
          if (disk.stat(launchFiles(dir).report) === undefined) names.add(groupName(dir));
    } catch {
      // Not ours to read.
      return undefined;
    }
  }
  return names;
}

const ownDirs = ({ containment, owner }: AgentHost): readonly string[] =>
  basesOf(containment).map((base) => ownerGroup(base, owner));

function ownName({ layout, system: { processes } }: AgentHost): string {
  const { pid, started } = processes.own();
  return userName({ space: processes.space(), pid, started, stateDir: layout.dir });
}
