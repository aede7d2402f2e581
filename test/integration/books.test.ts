/**
 * @file After a storm of jobs, with every process of the fleet killed once, a scrape and the history database say what the fleet's own history says.
 *
 * The history is folded anew here, event by event; how jobs ended is known by how they were treated.
 */

import { writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { JobFile } from "../../client/index.ts";
import type { Folded } from "../../console/follow/fleet-run.ts";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import { openHistory, type HistoryDatabase } from "../../console/history/database.ts";
import { usageBy } from "../../console/history/usage.ts";
import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import {
  historyFileOf,
  startLiveConsole,
  valueOf,
  type LiveConsole,
} from "../support/live-console.ts";
import { serverAddress } from "../support/server-address.ts";
import { PATIENCE_MS, startWorld, type World } from "../support/world.ts";
import { foldedOf } from "../support/recorded-fleet.ts";

/** Two hosts, eight GPUs in all; nothing is kept free for inference to come. */
const FLEET = `
name: stormy
policy: { reserve: 0 }
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    silence: 6s
    fence: 300s
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "a[1-2]", gpus: 4, type: H100 }
`;
const FREE_GPUS = 'orbweaver_gpus{cluster="alpha",type="H100",state="free"}';
const ALL = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };

let world: World;
let shown: LiveConsole;

beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
  shown = await startLiveConsole(world);
});
afterAll(async () => {
  await shown.kill();
  await world.stop();
});

const handle = (job: string) => world.temporal.workflow.getHandle(job);
const isHeldBy = ({ leases }: Ledger, job: string): boolean =>
  [...leases.values()].some(({ jobId, state }) => jobId === job && state === "held");

/** A job of one line for the shell. */
function lineJob(name: string, gang: number, line: string, more: Partial<JobFile> = {}): JobFile {
  return { name, gang, run: { command: ["sh", "-c", line], grace: "1s" }, ...more };
}

/** Every job with its end, in the words of the database. */
async function storm(): Promise<ReadonlyMap<string, string>> {
  const outcomes = new Map<string, string>();
  const send = async (outcome: string, file: JobFile): Promise<string> => {
    const { jobId } = await world.orbweaver.submit(file);
    outcomes.set(jobId, outcome);
    return jobId;
  };
  const untilHeld = (job: string): Promise<Ledger> =>
    world.until(`${job} runs`, (ledger) => isHeldBy(ledger, job));

  // Runs until it has given way, however slow this machine is.
  const go = path.join(world.stateDir, "go");
  const big = await send("completed", {
    ...{ name: "big", gang: 8, preemption: { minRuntime: "0s" } },
    run: {
      command: ["sh", "-c", `trap : USR1; until [ -e '${go}' ]; do sleep 0.1; done`],
      checkpoint: { signal: "USR1", grace: "2s" },
      grace: "1s",
    },
  });
  const first = [...(await untilHeld(big)).leases.values()].find(({ jobId }) => jobId === big)?.id;
  if (first === undefined) throw new Error(`${big} has no lease`);
  await send("completed", lineJob("urgent", 4, "sleep 2", { class: "inference" }));
  await world.until("the big one gives way", ({ leases }) => {
    const lease = leases.get(first);
    return lease === undefined || lease.eviction !== undefined;
  });
  writeFileSync(go, "");
  const ends = lineJob("ends", 2, "sleep 300", { class: "inference" });
  const terminated = await send("terminated", ends);
  await untilHeld(terminated);
  await handle(terminated).terminate("as an operator may");
  for (let at = 0; at < 6; at += 1)
    await send("completed", lineJob(`fine-${String(at)}`, 1 + (at % 4), "sleep 0.5"));
  await send("failed", lineJob("fails", 1, "exit 3"));
  const twice = lineJob("fails-twice", 2, "exit 3", { retry: { attempts: 2, backoff: "0s" } });
  await send("failed", twice);
  const tasks = lineJob("tasks", 1, "sleep 0.2", { array: { count: 12, parallel: 4 } });
  await send("completed", tasks);
  const stops = lineJob("stops", 1, "sleep 900", { class: "inference" });
  const stopped = await send("cancelled", stops);
  await untilHeld(stopped);
  await world.kill("fleet");
  // The one before has a GPU until it is cancelled, so this one has all of them never.
  const waits = await send("cancelled", lineJob("waits", 8, "sleep 900", { priority: -100 }));
  await world.kill("jobs");
  await world.start("fleet", ["worker", "--role", "fleet"]);
  await world.start("jobs", ["worker", "--role", "jobs"]);
  await world.kill("agent-alpha");
  await world.startAgent("alpha");
  await shown.kill();
  await world.orbweaver.job(waits).cancel();
  await world.orbweaver.job(stopped).cancel();
  shown = await startLiveConsole(world);
  await send("completed", lineJob("last", 4, "sleep 0.5"));
  return outcomes;
}

interface Truth {
  readonly folded: readonly Folded[];
  /** All that there ever were, as they were last. */
  readonly leases: readonly Lease[];
  /** Each order to end. */
  readonly evicted: readonly NonNullable<Lease["eviction"]>[];
  readonly requests: number;
  readonly tokens: number;
  readonly last: Ledger;
  readonly gpuMs: number;
  readonly waitedMs: number;
}

async function foldedHistory(): Promise<Truth> {
  const { events } = await handle(fleetWorkflowId(world.fleet)).fetchHistory();
  const codecs = createConverters().worker.payloadCodecs ?? [];
  const run = await openFollowedRun("run", events?.[0] ?? {}, codecs);
  const first = run.ledger();
  const folded = await foldedOf(run, events ?? []);
  const last = run.ledger();
  const leases = new Map<string, Lease>();
  const evicted: NonNullable<Lease["eviction"]>[] = [];
  const freedAtMs = new Map<string, number>();
  for (const { event, before, ledger } of folded) {
    for (const [id, lease] of ledger.leases) {
      const former = before.leases.get(id);
      if (lease.eviction !== undefined && former !== undefined && former.eviction === undefined)
        evicted.push(lease.eviction);
      leases.set(id, lease);
    }
    for (const id of before.leases.keys())
      if (isOver(ledger, id) && !isOver(before, id)) freedAtMs.set(id, event.nowMs);
  }
  const all = [...leases.values()];
  return {
    ...{ folded, last, evicted, leases: all },
    requests: last.nextArrival - first.nextArrival,
    tokens: last.nextToken - first.nextToken,
    gpuMs: all.reduce(
      (sum, { id, gpus, grantedAtMs }) =>
        sum + gpuCountOf(gpus) * ((freedAtMs.get(id) ?? NaN) - grantedAtMs),
      0,
    ),
    waitedMs: all.reduce((sum, lease) => sum + lease.grantedAtMs - lease.requestedAtMs, 0),
  };
}

/** The GPUs of a vacating lease are free but for hosts that have not confirmed. */
const isOver = ({ leases }: Ledger, id: Lease["id"]): boolean =>
  (leases.get(id)?.state ?? "vacating") === "vacating";

/** Reads the database, which a console writes, until it has what is asked for. */
async function untilRead<Answer>(
  what: string,
  read: (database: HistoryDatabase) => Answer | undefined,
): Promise<Answer> {
  for (const endAtMs = Date.now() + PATIENCE_MS; ;) {
    const database = await openHistory(historyFileOf(world), { isNew: false });
    try {
      const answer = read(database);
      if (answer !== undefined) return answer;
      if (Date.now() > endAtMs) throw new Error(`never came true: ${what}`);
    } finally {
      database.close();
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

it("equal the ledger's own counts, whoever was killed in between", async () => {
  const outcomes = await storm();
  for (const job of outcomes.keys())
    await handle(job)
      .result()
      .catch(() => undefined);
  await world.until(
    "nothing is left in the ledger",
    ({ leases, requests }) => leases.size === 0 && requests.size === 0,
  );
  const truth = await foldedHistory();
  const { leases, last, evicted } = truth;
  // What follows is no comparison of nothing with nothing.
  expect(leases.length).toBe(truth.tokens);
  expect(leases.length).toBeGreaterThanOrEqual(outcomes.size - 1);
  expect(evicted.length).toBeGreaterThan(0);

  const jobs = await untilRead("every job is there, and none is due", (database) => {
    const [due] = database.all<{ readonly count: number }>("SELECT count(*) AS count FROM due", {});
    const rows = database.all<{ readonly job: string; readonly outcome: string }>(
      "SELECT job, outcome FROM jobs",
      {},
    );
    return due?.count === 0 && rows.length >= outcomes.size ? rows : undefined;
  });
  expect(new Map(jobs.map(({ job, outcome }) => [job, outcome]))).toEqual(outcomes);
  await expectBooks(truth);

  // Also what happens to hosts has the fleet plan, so both are read anew until they agree.
  await expect
    .poll(
      async () => {
        const { folded } = await foldedHistory();
        const plans = folded.filter(({ event }) => event.kind === "plan").length;
        return plans - (valueOf(await shown.scrape(), "orbweaver_cycles_total{") ?? 0);
      },
      { interval: 1_000 },
    )
    .toBe(0);
  const text = await shown.scrape();
  const said = (series: string): number | undefined => valueOf(text, series);
  expect(said("orbweaver_history_reached ")).toBe(1);
  expect(said("orbweaver_requests_total ")).toBe(truth.requests);
  expect(said("orbweaver_grants_total{")).toBe(leases.length);
  expect(said("orbweaver_granted_gpus_total{")).toBe(
    leases.reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0),
  );
  expect(said("orbweaver_preemptions_total{")).toBe(evicted.length);
  expect(said("orbweaver_gpu_seconds_lost_total{")).toBeCloseTo(
    evicted.reduce((sum, { lostGpuSeconds }) => sum + lostGpuSeconds, 0),
    6,
  );
  expect(said("orbweaver_tenant_wait_seconds_count{")).toBe(leases.length);
  expect(said("orbweaver_tenant_wait_seconds_sum{")).toBeCloseTo(truth.waitedMs / 1_000, 6);
  expect(said("orbweaver_run_seconds_count{")).toBe(last.runs?.length ?? 0);
  expect(said("orbweaver_leases{")).toBe(0);
  expect(said("orbweaver_pending_jobs{") ?? 0).toBe(0);
  // A host that is silent for a while on a busy machine comes back.
  await expect.poll(async () => valueOf(await shown.scrape(), FREE_GPUS)).toBe(8);
});

/** One row for each lease, and GPU-hours to the millisecond. */
async function expectBooks({ leases, gpuMs }: Truth): Promise<void> {
  const database = await openHistory(historyFileOf(world), { isNew: false });
  try {
    const rows = database.all<{ readonly lease: string; readonly gpus: number }>(
      "SELECT lease, gpus FROM leases ORDER BY lease",
      {},
    );
    expect(new Map(rows.map(({ lease, gpus }) => [lease, gpus]))).toEqual(
      new Map(leases.map(({ id, gpus }) => [id, gpuCountOf(gpus)])),
    );
    const [usage] = usageBy(database, ["tenant"], ALL);
    expect(usage?.leases).toBe(leases.length);
    expect((usage?.held ?? 0) * 3_600_000).toBeCloseTo(gpuMs, 3);
  } finally {
    database.close();
  }
}
