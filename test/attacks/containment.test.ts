/**
 * @file A job that tries to leave processes behind on a live fleet: when it has ended, nothing of it runs, and `fleet show` names the means.
 */

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { basesOf, CONTAINER_KINDS, ownersIn } from "../../agent/containment/container.ts";
import { parseUser, type GroupUser } from "../../agent/containment/group-user.ts";
import { findContainment } from "../../agent/system/find-containment.ts";
import { nodeGroups } from "../../agent/system/node-groups.ts";
import { eventually, kill, runs } from "../agent/fixture.ts";
import { cliOf } from "../support/own-cli.ts";
import { removeFolder } from "../support/remove-folder.ts";

const FLEET = "contained";
/** Seconds that no other process of the machine sleeps. */
const TAG = `421.${process.pid}`;
const LASTING = `600.${process.pid}`;
const ESCAPES = [
  `env -i setsid sleep ${TAG} &`,
  `env -i setsid sh -c '(sleep ${TAG} &); sleep ${TAG} & exit 0' &`,
  `env -i setsid sh -c 'while :; do sh -c "sleep 0.01; : ${TAG}"; done' &`,
];
let dir = "";

const cli = cliOf(FLEET, () => join(dir, "state"));

function running(tag = TAG): readonly string[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const words = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ");
      return words.includes(tag) && Number(name) !== process.pid ? [words] : [];
    } catch {
      return [];
    }
  });
}

const bases = basesOf(findContainment());

/** Agents of this test's fleets, alive or not, whose hosts have groups, by the names beside these. */
const usersBelow = (): readonly GroupUser[] =>
  bases.map(ownersIn).flatMap((all) =>
    nodeGroups
      .below(all)
      .flatMap((owner) => nodeGroups.below(join(all, owner)))
      .flatMap((name) => parseUser(name) ?? [])
      .filter(({ stateDir }) => stateDir?.includes(dir) === true),
  );

const pids = (): readonly number[] => [...new Set(usersBelow().map(({ pid }) => pid))];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "orbweaver-contained-"));
  await cli("up", "--always-on");
  for (const [name, last] of [
    ["ends", "sleep 0.5"],
    ["is-stopped", "echo up; exec sleep 600"],
  ] as const)
    writeFileSync(
      join(dir, `${name}.yaml`),
      JSON.stringify({
        name,
        gang: { gpus: 1 },
        run: { command: ["sh", "-c", `${ESCAPES.join("\n")}\n${last}`] },
      }),
    );
});
afterAll(async () => {
  await cli("down", "--stop-jobs").catch(() => undefined);
  removeFolder(dir);
});

it("a job that ends leaves nothing behind", async () => {
  await cli("submit", "--wait", join(dir, "ends.yaml"));
  expect(running()).toEqual([]);
});

it("a job that is cancelled leaves nothing behind, and its GPUs are free then", async () => {
  const submitted = cli("submit", "--wait", "--key", "is-stopped", join(dir, "is-stopped.yaml"));
  const ended = submitted.catch(() => undefined);
  await eventually(() => running().length >= ESCAPES.length);
  await cli("cancel", "is-stopped");
  await ended;
  expect(running()).toEqual([]);
});

it("`fleet show` names the container of each host and what it does not guarantee", async () => {
  const shown = JSON.parse(await cli("fleet", "show", "--json")) as {
    readonly trust: { readonly containment: readonly { readonly containment: string }[] };
  };
  const [share] = shown.trust.containment;
  expect(CONTAINER_KINDS).toContain(share?.containment);
  expect(await cli("fleet", "show")).toMatch(
    /containment: \d+ hosts .*\n(?: +limited: .*\n)? +not guaranteed: /,
  );
});

describe.skipIf(bases.length === 0)("the groups of the fleet's launches (needs cgroups)", () => {
  it("go with the agent, and those of one that was killed with the next agent of the machine", async () => {
    await cli("submit", "--key", "goes-on", "--gpus", "1", "--", "sleep", LASTING);
    const first = await eventually(() => pids().length > 0 && pids());
    for (const pid of first) kill(pid);
    await cli("up", "--always-on");
    // The launch goes on, under the name of its host's next agent.
    const second = await eventually(
      () => !pids().some((pid) => first.includes(pid)) && pids().every(runs) && pids(),
    );
    await cli("cancel", "--force", "goes-on");
    // A forced cancel does not wait for the host, and a launch that outlives its agent keeps its group.
    await eventually(() => running(LASTING).length === 0);
    await cli("submit", "--wait", "--gpus", "1", "--", "true");
    for (const pid of second) kill(pid);
    await eventually(() => !pids().some(runs));
    expect(pids()).not.toEqual([]);
    await cli("down");
    removeFolder(join(dir, "state"));
    // A fleet that knows nothing of the first one.
    await cli("up", "--always-on");
    await cli("submit", "--wait", "--gpus", "1", "--", "true");
    await cli("down");
    expect(pids()).toEqual([]);
  });
});
