/**
 * @file A job that tries to leave processes behind on a live fleet: when it has ended, nothing of it runs, and `fleet show` names the means.
 */

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { CONTAINER_KINDS } from "../../agent/containment/container.ts";
import { eventually } from "../agent/fixture.ts";
import { cliOf } from "../support/own-cli.ts";
import { removeFolder } from "../support/remove-folder.ts";

const FLEET = "contained";
/** Seconds that no other process of the machine sleeps. */
const TAG = `421.${process.pid}`;
const ESCAPES = [
  `env -i setsid sleep ${TAG} &`,
  `env -i setsid sh -c '(sleep ${TAG} &); sleep ${TAG} & exit 0' &`,
  `env -i setsid sh -c 'while :; do sh -c "sleep 0.01; : ${TAG}"; done' &`,
];
let dir = "";

const cli = cliOf(FLEET, () => join(dir, "state"));

function running(): readonly string[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const words = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ");
      return words.includes(TAG) && Number(name) !== process.pid ? [words] : [];
    } catch {
      return [];
    }
  });
}

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
