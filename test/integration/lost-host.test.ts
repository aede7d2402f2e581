/** @file Gangs that lose a host, on a live fleet: they keep the others, say so, and run on the mended set; `bench swap` in its short form. */

import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { playSwaps } from "../../bench/swap/run.ts";
import { startFleet } from "../../cli/up/fleet-start.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { hostConditionOf } from "../../scheduling/ledger/rules/grant-check.ts";
import { serverAddress } from "../support/server-address.ts";
import { fleetOf, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

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

const FLEET_YAML = `name: lossy\nclusters:${["a", "b", "c", "d", "e"].map(cluster).join("")}`;

let world: World;
let notes: string;
beforeAll(async () => {
  notes = mkdtempSync(path.join(tmpdir(), "orbweaver-lost-host-"));
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET_YAML });
});
afterAll(async () => {
  await world.stop();
  removeFolder(notes);
});

const linesOf = (name: string): readonly string[] => {
  try {
    return readFileSync(path.join(notes, name), "utf8").trim().split("\n");
  } catch {
    return [];
  }
};

const hostsOf = (lines: readonly string[]): readonly string[] =>
  lines.map((line) => line.split(" ")[0] ?? "");

/** A gang on four of the five hosts and a job on the fifth; then one of the four is killed, and the others are kept. */
async function loseOne(name: string): Promise<{
  readonly gang: string;
  readonly small: string;
  readonly lost: string;
  readonly others: readonly string[];
}> {
  const note = `echo "$ORBWEAVER_HOST $ORBWEAVER_LEASE_ID" >> ${notes}/${name}`;
  const gang = await world.orbweaver.submit({
    name,
    gang: { gpus: 8, replace: "2m" },
    constraints: { maxClusters: 5 },
    run: {
      launch: "per-host",
      command: ["sh", "-c", `${note}; exec sleep 600`],
      grace: "1s",
    },
  });
  await expect.poll(() => linesOf(name).length).toBe(4);
  const small = await world.orbweaver.submit({
    name: "small",
    gang: 2,
    run: { command: ["sleep", "600"], launch: "per-host", grace: "1s" },
  });
  await world.until("the fifth host is taken", ({ leases }) => leases.size === 2);
  const [lost = "", ...others] = hostsOf(linesOf(name));
  await world.kill(`agent-${lost.split("/")[0] ?? ""}`);
  await keptAre(others);
  return { gang: gang.jobId, small: small.jobId, lost, others };
}

async function keptAre(hosts: readonly string[]): Promise<void> {
  const { reservations } = await world.until("the others are kept", (ledger) =>
    [...(ledger.reservations?.values() ?? [])].some(({ kind }) => kind === "replace"),
  );
  const [kept] = [...(reservations?.values() ?? [])];
  expect(kept?.gpus.map(({ host }) => host)).toEqual([...hosts].sort());
}

/** The fifth host is given up, and the gang runs on the three and that one. */
async function mend(
  name: string,
  { gang, small, lost, others }: Awaited<ReturnType<typeof loseOne>>,
): Promise<void> {
  await world.orbweaver.job(small).cancel();
  await expect.poll(() => linesOf(name).length).toBe(8);
  const second = hostsOf(linesOf(name).slice(4));
  for (const host of others) expect(second).toContain(host);
  expect(second).not.toContain(lost);
  expect((await world.ledger()).reservations).toBeUndefined();
  await world.orbweaver.job(gang).cancel();
  await world.until("nothing is held", ({ leases }) => leases.size === 0);
}

/** To its last task; resolves when its new run has asked for GPUs. */
async function reset(jobId: string): Promise<void> {
  const { runId } = await world.temporal.workflow.getHandle(jobId).describe();
  const execution = { workflowId: jobId, runId };
  const { history } = await world.temporal.workflowService.getWorkflowExecutionHistory({
    namespace: "default",
    execution,
  });
  const task = history?.events?.filter(
    ({ workflowTaskCompletedEventAttributes: ended }) => (ended ?? undefined) !== undefined,
  );
  const fresh = await world.temporal.workflowService.resetWorkflowExecution({
    namespace: "default",
    workflowExecution: execution,
    workflowTaskFinishEventId: task?.at(-1)?.eventId ?? null,
    requestId: `${jobId}-reset`,
    reason: "by a test",
  });
  await world.until("the new run has asked", ({ requests }) =>
    [...requests.values()].some((request) => request.runId === fresh.runId),
  );
}

it("a silent host is fenced, the other three are kept, explain says so, also when the gang is reset, and a cancel of what holds the fifth mends it", async () => {
  const jobs = await loseOne("gang");
  await world.until("the gang says why it waits", ({ reasons }) =>
    [...reasons.values()].some(({ code }) => code === "WaitingForReplacement"),
  );
  const explained = await world.cli(["explain", jobs.gang]);
  expect(explained.stdout).toMatch(
    /has lost a host; 6 GPUs on 3 of its hosts are kept for it until \d{4}-/,
  );
  await reset(jobs.gang);
  await keptAre(jobs.others);
  await mend("gang", jobs);
  await world.startAgent(jobs.lost.split("/")[0] ?? "");
  await world.until("its host is back", ({ hosts }) =>
    [...hosts.values()].every((host) => hostConditionOf(host) === undefined),
  );
});

it("a fleet that is terminated meanwhile keeps them too, as soon as it has begun again", async () => {
  const jobs = await loseOne("again");
  const { nextToken } = await world.ledger();
  await world.temporal.workflow.getHandle(fleetWorkflowId(world.fleet)).terminate("by a test");
  const start = { name: world.fleet, fleet: fleetOf(FLEET_YAML), detailsHash: undefined };
  await startFleet(world.temporal, start);
  await world.until("the fleet has begun again", (ledger) => ledger.nextToken > nextToken);
  await keptAre(jobs.others);
  await mend("again", jobs);
});

it("four hosts are lost in a row, with other jobs waiting for every GPU: each gang runs on the three and a replacement", async () => {
  const swaps = await playSwaps({
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
  // How soon is a bar of the bench.
  expect(swaps.map(({ hasKept, hasResumed }) => hasKept && hasResumed)).toEqual(
    Array(4).fill(true),
  );
});
