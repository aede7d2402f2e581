/**
 * @file The groups that the kernel keeps for a host's launches: gone after the launch, after the agent, and after an agent that was killed; never those
 * that somebody uses. On real cgroups; skipped by name where this user has none.
 */

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { basesOf, ownerGroup, ownersIn } from "../../agent/containment/container.ts";
import { isUserName, parseUser, userName } from "../../agent/containment/group-user.ts";
import {
  leaveGroups,
  removeLeftGroups,
  takeOverGroups,
  useGroups,
} from "../../agent/runs/host-groups.ts";
import { removeGroups } from "../../agent/runs/process-end.ts";
import { endStrays } from "../../agent/runs/stray-launches.ts";
import { findContainment, trialGroup } from "../../agent/system/find-containment.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { token } from "../../domain/values/ids.ts";
import { FakeMachine } from "./fakes.ts";
import {
  eventually,
  folder,
  orderOf,
  removeFolders,
  stopOf,
  testAgent,
  type TestAgent,
} from "./fixture.ts";

const { groups, processes } = nodeSystem;
const containment = findContainment();
const bases = basesOf(containment);
const owners: string[] = [];

afterEach(() => {
  for (const owner of owners.splice(0))
    for (const base of bases) {
      groups.kill(ownerGroup(base, owner));
      groups.remove(ownerGroup(base, owner));
    }
  removeFolders();
});

function newOwner(): string {
  const owner = `test-${process.pid}-${performance.now()}`;
  owners.push(owner);
  return owner;
}

const agentOf = (owner: string, stateDir = folder()): TestAgent =>
  testAgent({ containment, owner, stateDir });

const dirsOf = (owner: string): readonly string[] => bases.map((base) => ownerGroup(base, owner));

/** What is left of the owner, by hierarchy. */
const leftOf = (owner: string): readonly (readonly string[])[] =>
  dirsOf(owner).flatMap((dir) => (existsSync(dir) ? [groups.below(dir)] : []));

/** Of all hierarchies. */
const launchGroupsOf = (owner: string): readonly string[] =>
  leftOf(owner)
    .flat()
    .filter((name) => !isUserName(name));

const launchesOf = (owner: string): readonly string[] => [...new Set(launchGroupsOf(owner))];

/** How many groups of the owner's launches another agent's start removes. Others on the machine may have left some as well. */
function removedOf(owner: string, { host }: TestAgent): number {
  const { length } = launchGroupsOf(owner);
  const all = removeLeftGroups([host]);
  const own = length - launchGroupsOf(owner).length;
  expect(all).toBeGreaterThanOrEqual(own);
  return own;
}

/** A process that has ended. */
const endedPid = (): number =>
  Number(execFileSync("sh", ["-c", "echo $$"], { encoding: "utf8" }).trim());

/** As an agent that was killed leaves them: its name is that of a process that is gone. */
function killed(owner: string, { stateDir = "", space = processes.space() } = {}): void {
  const name = userName({
    ...{ space, pid: endedPid(), started: "1" },
    ...(stateDir !== "" && { stateDir }),
  });
  for (const dir of dirsOf(owner)) {
    for (const other of groups.below(dir)) if (isUserName(other)) groups.remove(join(dir, other));
    groups.make(join(dir, name));
  }
}

async function running(agent: TestAgent, order = orderOf("exec sleep 300")) {
  const report = agent.runs.run(order);
  await eventually(() => agent.task.beats.at(-1)?.phase === "running");
  return { order, report };
}

describe.skipIf(!("base" in containment))("the groups of a host (needs cgroups)", () => {
  it("are named by the agent that uses them, and go with the launch and with the agent", async () => {
    const owner = newOwner();
    const agent = agentOf(owner);
    await agent.runs.run(orderOf("true"));
    await eventually(() => launchesOf(owner).length === 0);
    const [names = []] = leftOf(owner);
    expect(names.map(parseUser)).toEqual([
      {
        space: processes.space(),
        pid: process.pid,
        started: processes.own().started,
        stateDir: agent.host.layout.dir,
      },
    ]);
    leaveGroups(agent.host);
    expect(leftOf(owner)).toEqual([]);
  });

  it("stay with a launch that outlives its agent, and go with the next agent of the host", async () => {
    const owner = newOwner();
    const stateDir = folder();
    const first = agentOf(owner, stateDir);
    const { order, report } = await running(first);
    leaveGroups(first.host);
    expect(launchesOf(owner)).toEqual([order.leaseId]);
    killed(owner, { stateDir: first.host.layout.dir });
    const next = agentOf(owner, stateDir);
    takeOverGroups(next.host);
    expect(leftOf(owner)[0]?.filter(isUserName)).toHaveLength(1);
    expect(removedOf(owner, agentOf(newOwner()))).toBe(0);
    await next.orders.stop(stopOf(order));
    await report;
    await eventually(() => launchesOf(owner).length === 0);
    leaveGroups(next.host);
    expect(leftOf(owner)).toEqual([]);
  });

  it("go with an agent whose launch ended without a group of its own being removed", () => {
    const owner = newOwner();
    const agent = agentOf(owner);
    useGroups(agent.host);
    for (const dir of dirsOf(owner)) groups.make(join(dir, "lease-3/of-the-job"));
    leaveGroups(agent.host);
    expect(leftOf(owner)).toEqual([]);
  });

  it("go at the start of the host's next agent where a former release has left them without a name", async () => {
    const owner = newOwner();
    for (const dir of dirsOf(owner)) groups.make(join(dir, "lease-3"));
    const agent = agentOf(owner);
    takeOverGroups(agent.host);
    await endStrays([agent.host]);
    expect(launchesOf(owner)).toEqual([]);
    leaveGroups(agent.host);
    for (const dir of dirsOf(owner)) groups.make(dir);
    takeOverGroups(agent.host);
    expect(leftOf(owner)).toEqual([]);
  });

  it("of an agent that was killed go at the start of any other one, where their state is gone", async () => {
    const [owner, other] = [newOwner(), newOwner()];
    const agent = agentOf(owner);
    const { order, report } = await running(agent);
    for (const dir of dirsOf(owner)) groups.make(join(dir, "lease-3"));
    killed(owner, { stateDir: join(agent.stateDir, "gone") });
    const count = dirsOf(owner).length;
    // What still runs stays, and all that lies above it.
    expect(removedOf(owner, agentOf(other))).toBe(count);
    expect(launchesOf(owner)).toEqual([order.leaseId]);
    for (const dir of dirsOf(owner)) groups.kill(dir);
    await report;
    await eventually(() => launchesOf(owner).length === 0);
    removeLeftGroups([agentOf(other).host]);
    expect(leftOf(owner)).toEqual([]);
  });

  it("of an agent that was killed stay for its next one where its folder has a launch that is not settled", async () => {
    const [owner, other] = [newOwner(), newOwner()];
    const agent = agentOf(owner);
    const order = orderOf("true");
    await agent.runs.run(order);
    const { dir, report } = agent.filesOf(order);
    await eventually(() => launchesOf(owner).length === 0);
    for (const each of dirsOf(owner)) groups.make(join(each, order.leaseId));
    killed(owner, { stateDir: agent.host.layout.dir });
    execFileSync("mv", [report, join(dir, "aside")]);
    expect(removedOf(owner, agentOf(other))).toBe(0);
    expect(launchesOf(owner)).toEqual([order.leaseId]);
    execFileSync("mv", [join(dir, "aside"), report]);
    expect(removedOf(owner, agentOf(other))).toBe(dirsOf(owner).length);
    expect(leftOf(owner)).toEqual([]);
  });

  it.each([
    { whose: "an agent that lives", leave: (owner: string) => useGroups(agentOf(owner).host) },
    {
      whose: "an agent among processes that cannot be seen from here",
      leave: (owner: string) => killed(owner, { stateDir: "/nowhere", space: "pid:[1]" }),
    },
    {
      whose: "an agent whose state is not known",
      leave: (owner: string) => killed(owner),
    },
    { whose: "somebody without a name", leave: () => undefined },
  ])("of $whose stay, though nothing runs in them", ({ leave }) => {
    const [owner, other] = [newOwner(), newOwner()];
    leave(owner);
    for (const dir of dirsOf(owner)) groups.make(join(dir, "lease-3"));
    expect(removedOf(owner, agentOf(other))).toBe(0);
    expect(launchesOf(owner)).toEqual(["lease-3"]);
  });

  it("start launches while others look for what is left, from one of a killed agent on", async () => {
    const [owner, other] = [newOwner(), newOwner()];
    const stateDir = folder();
    const looker = agentOf(other);
    let looks = 0;
    const looking = setInterval(() => {
      removeLeftGroups([looker.host]);
      looks += 1;
    }, 1);
    try {
      for (let count = 1; count <= 12; count += 1) {
        for (const dir of dirsOf(owner)) groups.make(join(dir, "lease-1"));
        killed(owner, { stateDir: "/nowhere" });
        const agent = agentOf(owner, stateDir);
        takeOverGroups(agent.host);
        await endStrays([agent.host]);
        const order = orderOf("true", { token: token(5 + count) });
        expect((await agent.runs.run(order)).end).toBe("completed");
        leaveGroups(agent.host);
      }
    } finally {
      clearInterval(looking);
    }
    expect(looks).toBeGreaterThan(12);
    removeLeftGroups([looker.host]);
    expect(leftOf(owner)).toEqual([]);
  });

  it("for a trial go where the process that tried was killed", () => {
    const [base = ""] = bases;
    const other = agentOf(newOwner());
    const trial = join(
      ownersIn(base),
      userName({ space: processes.space(), pid: endedPid(), started: "1" }),
    );
    groups.make(trial);
    groups.make(trialGroup(base));
    removeLeftGroups([other.host]);
    const left = readdirSync(ownersIn(base));
    groups.remove(trialGroup(base));
    expect(
      [trial, trialGroup(base)].map((each) => left.includes(each.slice(ownersIn(base).length + 1))),
    ).toEqual([false, true]);
  });
});

describe("the name of an agent among groups", () => {
  it.each([
    { space: "pid:[4026531836]", pid: 7, started: "123", stateDir: "/var/lib/a b,@%/hosts/eu-1/h" },
    { space: "", pid: 1, started: "Thu Jan  1 00:00:00 1970" },
  ])("says what it was made of: $stateDir", (user) => {
    const name = userName(user);
    expect(name).not.toMatch(/[/\n]/);
    expect(isUserName(name)).toBe(true);
    expect(parseUser(name)).toEqual(user);
  });

  it("leaves out a folder for which it has no room", () => {
    const user = { space: "s", pid: 7, started: "1" };
    expect(parseUser(userName({ ...user, stateDir: `/${"x".repeat(250)}` }))).toEqual(user);
  });

  it.each(["lease-7", "@", "@a,b,c", "@a,7", "@a,7,c,d,e", "@%,7,c"])("is not %s", (name) => {
    expect(parseUser(name)).toBeUndefined();
  });
});

it("the groups of a launch are removed when the kernel lets go of a process that ends", async () => {
  const machine = new FakeMachine();
  const system = machine.system();
  let isLeaving = true;
  const removed: string[] = [];
  const remove = (path: string): boolean => {
    if (!isLeaving) removed.push(path);
    return !isLeaving;
  };
  const gone = removeGroups({ ...system, groups: { ...system.groups, remove } }, ["a", "b"]);
  await machine.pass(5_000);
  isLeaving = false;
  await machine.until(gone, 1_000);
  expect(removed).toEqual(["a", "b"]);
});

it("a group of a launch that the kernel never lets go is left to a later agent", async () => {
  const machine = new FakeMachine();
  const system = machine.system();
  await machine.until(
    removeGroups({ ...system, groups: { ...system.groups, remove: () => false } }, ["a"]),
    120_000,
  );
});
