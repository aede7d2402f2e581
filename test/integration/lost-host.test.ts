/** @file Gangs that lose a host, on a live fleet: they keep the others, say so, and run on the mended set; `bench swap` in its short form. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { runSwaps } from "../../bench/swap/run.ts";
import { startWorld, type World } from "../support/world.ts";

/** Each agent has one host; the fence runs by itself. */
const cluster = (name: string): string => `
  - name: ${name}
    site: here
    jurisdiction: EU
    simulated: true
    silence: 5s
    fence: 10s
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: h1, gpus: 2, type: H100 }
`;

let world: World;
let notes: string;
beforeAll(async () => {
  notes = mkdtempSync(path.join(tmpdir(), "orbweaver-lost-host-"));
  const fleetYaml = `name: lossy\nclusters:${["a", "b", "c", "d", "e"].map(cluster).join("")}`;
  world = await startWorld({ address: inject("temporalAddress"), fleetYaml });
}, 300_000);
afterAll(async () => {
  await world.stop();
  rmSync(notes, { recursive: true, force: true });
});

const linesOf = (name: string): readonly string[] => {
  try {
    return readFileSync(path.join(notes, name), "utf8").trim().split("\n");
  } catch {
    return [];
  }
};

it("a silent host is fenced, the other three are kept, explain says so, and a cancel of what holds the fifth mends the gang", async () => {
  const gang = await world.orbweaver.submit({
    name: "gang",
    gang: { gpus: 8, replace: "2m" },
    constraints: { maxClusters: 5 },
    run: {
      launch: "per-host",
      command: [
        "sh",
        "-c",
        `echo "$ORBWEAVER_HOST $ORBWEAVER_LEASE_ID" >> ${notes}/gang; exec sleep 600`,
      ],
      grace: "1s",
    },
  });
  await expect.poll(() => linesOf("gang").length, { timeout: 60_000 }).toBe(4);
  const small = await world.orbweaver.submit({
    name: "small",
    gang: 2,
    run: { command: ["sleep", "600"], launch: "per-host", grace: "1s" },
  });
  await world.until("the fifth host is taken", ({ leases }) => leases.size === 2);
  const first = linesOf("gang").map((line) => line.split(" ")[0] ?? "");
  const [lost = "", ...others] = first;
  await world.kill(`agent-${lost.split("/")[0] ?? ""}`);
  const kept = await world.until("the others are kept", ({ reservations }) =>
    [...(reservations?.values() ?? [])].some(({ kind }) => kind === "replace"),
  );
  expect([...(kept.reservations?.values() ?? [])][0]?.gpus.map(({ host }) => host)).toEqual(
    [...others].sort(),
  );
  await world.until("the gang says why it waits", ({ reasons }) =>
    [...reasons.values()].some(({ code }) => code === "WaitingForReplacement"),
  );
  const explained = await world.cli(["explain", gang.jobId]);
  expect(explained.stdout).toMatch(
    /has lost a host; 6 GPUs on 3 of its hosts are kept for it until \d{4}-/,
  );

  await world.orbweaver.job(small.jobId).cancel();
  await expect.poll(() => linesOf("gang").length, { timeout: 60_000 }).toBe(8);
  const second = linesOf("gang")
    .slice(4)
    .map((line) => line.split(" ")[0] ?? "");
  for (const host of others) expect(second).toContain(host);
  expect(second).not.toContain(lost);
  expect((await world.ledger()).reservations).toBeUndefined();
  await world.orbweaver.job(gang.jobId).cancel();
  await world.until("nothing is held", ({ leases }) => leases.size === 0);
});

it("four hosts are lost in a row, with other jobs waiting for every GPU: each gang runs on the three and a replacement", async () => {
  const { bars } = await runSwaps({
    seed: 7,
    size: () => 4,
    // A server of its own: here the workers of the other fleet would serve its jobs, with keys of another user.
    text: () => undefined,
    flag: () => false,
    chosen: () => [],
    say: () => undefined,
    interrupted: new AbortController().signal,
    env: process.env,
  });
  expect(bars.find(({ id }) => id === "swaps")).toMatchObject({ got: 4, holds: true });
}, 360_000);
