/** @file A live fleet's metrics against its ledger, and every panel of the shipped boards in a real Prometheus where this machine has one. */

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { stringify } from "yaml";
import type { JobPage } from "../../page/job-wire.ts";
import type { PastAnswer } from "../../page/wire.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { historyFileIn } from "../../workers/state.ts";
import { drawFreePort } from "../../workers/server/ports.ts";
import {
  historyFileOf,
  startLiveConsole,
  valueOf,
  type LiveConsole,
} from "../support/live-console.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT, SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

let world: World;
let shown: LiveConsole;
let url: string;
let ended: string;
let waits: string;

/** Of the one agent, and of a worker. */
let agentMetrics: string;
let workerMetrics: string;

beforeAll(async () => {
  agentMetrics = `127.0.0.1:${String(await drawFreePort())}`;
  world = await startWorld({
    address: serverAddress(),
    fleetYaml: `${SMALL_FLEET}tenants:\n  - { name: capped, quota: { H100: 2 }, borrowing: 0 }\n`,
    agentArgs: ["--metrics", agentMetrics],
  });
  shown = await startLiveConsole(world);
  ({ url } = shown);
});
afterAll(async () => {
  await shown.kill();
  await world.stop();
});

const historyFile = (): string => historyFileOf(world);
const scrape = (): Promise<string> => shown.scrape();

it("counts what a live fleet does, without a wake of it", async () => {
  const submit = async (name: string, gpus: number, seconds: number): Promise<string> =>
    (
      await world.orbweaver.submit({
        name,
        gang: { gpus },
        preemption: { minRuntime: "0s" },
        run: { command: ["sleep", String(seconds)] },
      })
    ).jobId;
  ended = await submit("first", 4, 1);
  await world.temporal.workflow.getHandle(ended).result();
  const holds = await submit("holds", 12, 600);
  await world.until("it holds", ({ leases }) =>
    [...leases.values()].some(({ jobId, state }) => jobId === holds && state === "held"),
  );
  waits = await submit("waits", 8, 1);
  await world.until(
    "one holds and one waits",
    ({ leases, reasons }) =>
      [...leases.values()].some(({ state }) => state === "held") && reasons.size === 1,
  );
  await expect.poll(async () => valueOf(await scrape(), "orbweaver_pending_jobs{")).toBe(1);
  const text = await scrape();
  const said = (series: string): number | undefined => valueOf(text, series);
  expect(said("orbweaver_grants_total{")).toBe(2);
  expect(said("orbweaver_granted_gpus_total{")).toBe(16);
  expect(said("orbweaver_gpus{")).toBe(12);
  expect(said('orbweaver_gpus{cluster="alpha",type="H100",state="busy"}')).toBe(12);
  expect(said("orbweaver_pending_gpus{")).toBe(8);
  expect(said("orbweaver_run_seconds_count{")).toBe(1);
  expect(said("orbweaver_run_seconds_sum{")).toBeGreaterThan(1);
  expect(said("orbweaver_history_reached")).toBe(1);
  // Of users' questions: who waits how long for what, who has what is due, what is lost, how the free GPUs lie.
  const has = (name: string, ...labels: readonly string[]): boolean =>
    text
      .split("\n")
      .some((line) => line.startsWith(`${name}{`) && labels.every((each) => line.includes(each)));
  for (const phase of ["queue", "deliver"])
    expect(has("orbweaver_wait_seconds_bucket", 'class="training"', `phase="${phase}"`)).toBe(true);
  for (const kind of ["held", "demand"])
    expect(has("orbweaver_tenant_gpus", 'tenant="default"', `kind="${kind}"`)).toBe(true);
  for (const name of ["tenant_wait_seconds_count", "flow_deficit_gpu_seconds", "cycles_total"])
    expect(has(`orbweaver_${name}`), name).toBe(true);
  for (const name of ["fragmentation_ratio", "plan_items_total", "oldest_pending_seconds"])
    expect(has(`orbweaver_${name}`), name).toBe(true);
});

it("follows signals that nobody knows, those with Temporal's own prefix too", async () => {
  const fleet = world.temporal.workflow.getHandle(fleetWorkflowId(world.fleet));
  for (const name of ["strange", "__strange", "__temporal_strange"]) await fleet.signal(name, 1);
  const { deadLetters } = await world.until(
    "all three are kept",
    (ledger) => ledger.deadLetters.reduce((sum, { times = 1 }) => sum + times, 0) >= 3,
  );
  await expect
    .poll(async () => valueOf(await scrape(), "orbweaver_dead_letters "))
    .toBe(deadLetters.length);
});

it("follows a job's own history while its page is open, once for all browsers", async () => {
  const isOver = ({ ended }: JobPage): boolean => ended !== undefined;
  const [page, other] = await Promise.all([pageOf(ended, isOver), pageOf(ended, isOver)]);
  expect(other).toEqual(page);
  expect(page.moments.map(({ kind }) => kind)).toEqual([
    ...["submitted", "granted", "starting", "running", "stopped", "ended"],
  ]);
  expect(page).toMatchObject({ job: ended, ended: { how: "completed" }, attempts: [{}] });
  const state = (await (await fetch(`${url}api/state`)).json()) as { readonly jobs: number };
  expect(state.jobs).toBe(1);
  const waiting = await pageOf(waits, ({ moments }) => moments.length > 1);
  expect(waiting.moments.map(({ kind }) => kind)).toEqual(["submitted", "waiting"]);
  const fleet = await pageOf(fleetWorkflowId(world.fleet), () => false);
  expect(fleet.trouble).toMatch(/ is no job$/);
});

it("shows the fleet as it was when a job ran that has ended", async () => {
  const { attempts } = await pageOf(ended, ({ attempts: [first] }) => first?.end !== undefined);
  const [run] = attempts;
  const said = await fetch(`${url}api/past?at=${String(run?.startedAtMs)}`);
  const { message, past, afterMs } = (await said.json()) as PastAnswer;
  const held = Object.values(message.changes?.leases?.set ?? {}).map(({ job }) => job);
  expect(held).toEqual([ended]);
  expect(Object.keys(message.changes?.requests?.set ?? {})).toEqual([]);
  expect(past.fromMs).toBeLessThan(run?.grantedAtMs ?? 0);
  expect(afterMs).toBeGreaterThan(run?.startedAtMs ?? Infinity);
  expect((await fetch(`${url}api/past?at=yesterday`)).status).toBe(400);
});

/** Reads the stream of a job until its page is as wanted, or tells of trouble. */
async function pageOf(job: string, isWanted: (page: JobPage) => boolean): Promise<JobPage> {
  const { body } = await fetch(`${url}api/job-events?job=${job}`);
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { done: true };
    if (done) throw new Error(`the stream of ${job} ended early`);
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (data === undefined) continue;
      const page = JSON.parse(data) as JobPage;
      if (!isWanted(page) && page.trouble === undefined) continue;
      await reader?.cancel();
      return page;
    }
  }
}

it("keeps what an ended job held and how it ended", async () => {
  const list = ["list", "--ended", "--history", historyFile(), "--json"];
  await expect.poll(async () => (await world.cli(list)).stdout, { interval: 500 }).toContain(ended);
  const { jobs } = JSON.parse((await world.cli(list)).stdout) as { readonly jobs: object[] };
  expect(jobs).toMatchObject([{ job: ended, name: "first", outcome: "completed", gpus: 4 }]);
  const usage = await world.cli([
    ...["usage", "--by", "job", "--month", "all", "--history", historyFile(), "-o", "csv"],
  ]);
  const ofLate = await world.cli([
    ...["usage", "--by", "tenant", "--half-life", "7d", "--history", historyFile(), "--json"],
  ]);
  expect(JSON.parse(ofLate.stdout)).toMatchObject({
    halfLifeMs: 604_800_000,
    rows: [{ names: ["default"], decayed: expect.any(Number) as number, share: 1 }],
  });
  const [head, ...rows] = usage.stdout.trim().split("\n");
  expect(head).toBe(
    "job,leases,held_gpu_hours,useful_gpu_hours,lost_gpu_hours,idle_gpu_hours,unknown_gpu_hours,measured_gpu_hours,used_gpu_hours",
  );
  const row = rows.find((line) => line.startsWith(`${ended},1,`))?.split(",") ?? [];
  const [held = 0, useful = 0, lost, idle = 0, unknown, measured] = row.slice(2).map(Number);
  expect(useful).toBeGreaterThan(0.001);
  expect(useful + idle).toBeCloseTo(held, 3);
  // Nobody tells the use of simulated GPUs.
  expect([lost, unknown, measured]).toEqual([0, 0, 0]);
});

it("lets a job go that waits for one that only the history remembers", async () => {
  const { workflowService, options } = world.temporal;
  const forgotten = { namespace: options.namespace, workflowExecution: { workflowId: ended } };
  await workflowService.deleteWorkflowExecution(forgotten);
  await expect
    // The server deletes when it comes to it, which may take half a minute on a quiet machine.
    .poll(async () => (await world.cli(["status", ended])).stderr)
    .toMatch(/NOT_FOUND/);
  // Where the console of `up` has it.
  const usual = historyFileIn(world.env, world.fleet);
  mkdirSync(path.dirname(usual), { recursive: true });
  symlinkSync(historyFile(), usual);
  const after = (on: string) =>
    world.cli(["submit", "--after", on, "--gpus", "1", "--json", "--", "true"]);
  const passed = await after(ended);
  expect(passed).toMatchObject({ code: 0, stderr: expect.stringContaining("history") as string });
  const { jobId } = JSON.parse(passed.stdout) as { readonly jobId: string };
  expect((await world.orbweaver.job(jobId).view()).spec).not.toHaveProperty("after");
  await world.orbweaver.job(jobId).cancel();
  expect(await after(`${ended}:failure`)).toMatchObject({ code: 1 });
});

it("times eviction, cycles, and the way from grant to running processes", async () => {
  const better = { name: "better", class: "inference", gang: { gpus: 4 } } as const;
  const { jobId } = await world.orbweaver.submit({ ...better, run: { command: ["true"] } });
  await world.temporal.workflow.getHandle(jobId).result();
  const evicted = 'orbweaver_eviction_seconds_count{class="training",reason="preemption"}';
  await expect.poll(async () => valueOf(await scrape(), evicted)).toBe(1);
  const text = await scrape();
  const said = (series: string): number => valueOf(text, series) ?? -1;
  expect(said(evicted.replace("count", "sum"))).toBeGreaterThan(0);
  expect(said('orbweaver_preemptions_total{class="training",reason="preemption"}')).toBe(1);
  expect(
    said('orbweaver_gpu_seconds_lost_total{class="training",reason="preemption"}'),
  ).toBeGreaterThan(0);
  const cycles = said('orbweaver_cycles_total{method="decide"}');
  expect(said('orbweaver_cycle_seconds_count{method="decide"}')).toBe(cycles);
  expect(said('orbweaver_cycle_seconds_sum{method="decide"}')).toBeGreaterThan(0);

  const agents = await (await fetch(`http://${agentMetrics}/metrics`)).text();
  const ready = 'orbweaver_ready_seconds_count{class="training"';
  expect(valueOf(agents, ready)).toBeGreaterThanOrEqual(2);
  expect(valueOf(agents, ready.replace("count", "sum"))).toBeGreaterThan(0);
  expect(valueOf(agents, ready.replace("training", "inference"))).toBe(1);
});

it("a worker serves the metrics of Temporal's SDK where it is asked to", async () => {
  const address = `127.0.0.1:${String(await drawFreePort())}`;
  await world.start("measured", ["worker", "--role", "jobs", "--metrics", address]);
  // Counted once it polls, which may be a moment after it has said that it is ready.
  const polls = async (): Promise<string> => {
    const text = await (await fetch(`http://${address}/metrics`)).text();
    return text.split("\n").find((line) => line.startsWith("temporal_num_pollers{")) ?? "";
  };
  await expect.poll(polls).toContain(`fleet="${world.fleet}"`);
  expect(await polls()).toContain('role="jobs"');
  workerMetrics = address;
  // Alone it does all that jobs do, so that it has all that the board of workers shows.
  await world.kill("jobs");
  const { jobId } = await world.orbweaver.submit({
    ...{ name: "measured", class: "inference", gang: { gpus: 1 }, run: { command: ["true"] } },
  });
  await world.temporal.workflow.getHandle(jobId).result();
  const board = readFileSync(path.join(ROOT, "deploy/grafana/workers.json"), "utf8");
  const named = new Set(board.match(/\btemporal_[a-z_]+/g));
  // Nothing may have failed; what was answered has a counter beside it, named alike.
  expect(named.delete("temporal_request_failure_total")).toBe(true);
  named.add("temporal_request_total");
  expect(named.size).toBeGreaterThan(5);
  await expect
    .poll(async () => {
      const texts = await Promise.all(
        [address, agentMetrics].map(async (at) => (await fetch(`http://${at}/metrics`)).text()),
      );
      return [...named].filter((name) => !texts.some((text) => text.includes(`\n${name}{`)));
    })
    .toEqual([]);
  const taken = ["worker", "--role", "jobs", "--metrics", address];
  const second = await world.cli(taken);
  expect(second.code).toBe(2);
  expect(second.stderr).toMatch(/BAD_INPUT: metrics cannot be served on .* already in use/);
});

it.skipIf(spawnSync("prometheus", ["--version"]).status !== 0)(
  "every panel of the boards shows data in Prometheus",
  async () => {
    const dir = mkdtempSync(path.join(tmpdir(), "orbweaver-prometheus-"));
    const port = await drawFreePort();
    const config = path.join(dir, "prometheus.yml");
    const target = new URL(url).host;
    writeFileSync(
      config,
      stringify({
        scrape_configs: [
          {
            ...{ job_name: "orbweaver", scrape_interval: "1s" },
            static_configs: [{ targets: [target], labels: { fleet: "f" } }],
          },
          {
            ...{ job_name: "orbweaver-workers", scrape_interval: "1s" },
            static_configs: [{ targets: [agentMetrics, workerMetrics] }],
          },
        ],
      }),
    );
    const server = spawn(
      "prometheus",
      [
        `--config.file=${config}`,
        `--storage.tsdb.path=${path.join(dir, "data")}`,
        `--web.listen-address=127.0.0.1:${String(port)}`,
        "--log.level=error",
      ],
      { stdio: "inherit" },
    );
    const ask = async (query: string): Promise<number> => {
      const asked = new URLSearchParams({ query }).toString();
      const answer = await fetch(`http://127.0.0.1:${String(port)}/api/v1/query?${asked}`);
      const { data } = (await answer.json()) as {
        readonly data?: { readonly result: readonly unknown[] };
      };
      return data?.result.length ?? -1;
    };
    try {
      // `rate` needs two scrapes.
      for (const series of ["orbweaver_leases", "temporal_num_pollers"])
        await expect
          .poll(() => ask(`count_over_time(${series}[1m]) >= 3`).catch(() => 0))
          .toBeGreaterThan(0);
      const folder = path.join(ROOT, "deploy/grafana");
      for (const file of readdirSync(folder)) {
        const { panels } = JSON.parse(readFileSync(path.join(folder, file), "utf8")) as {
          readonly panels: readonly { readonly targets: readonly { readonly expr: string }[] }[];
        };
        for (const { expr } of panels.flatMap(({ targets }) => targets))
          // What a worker has done once may have been just now.
          await expect.poll(() => ask(expr), { message: `${file}: ${expr}` }).toBeGreaterThan(0);
      }
    } finally {
      const gone = once(server, "exit");
      server.kill();
      await gone;
      removeFolder(dir);
    }
  },
);

it("tells the wait for quota apart, and each tenant's wait as a histogram", async () => {
  const quota = 'orbweaver_wait_seconds_sum{class="training",phase="quota"';
  const ofCapped = async (suffix: string): Promise<number> => {
    const lines = (await scrape()).split("\n");
    const found = lines.find(
      (line) =>
        line.startsWith(`orbweaver_tenant_wait_seconds_${suffix}{`) &&
        line.includes('tenant="capped"') &&
        (suffix !== "bucket" || line.includes('le="604800"')),
    );
    return Number(found?.split(" ")[1] ?? 0);
  };
  const { leases, requests } = await world.ledger();
  for (const { jobId } of [...leases.values(), ...requests.values()])
    // One may end meanwhile.
    await world.orbweaver
      .job(jobId)
      .cancel()
      .catch(() => undefined);
  await world.until("all is over", (ledger) => ledger.leases.size + ledger.requests.size === 0);
  const capped = (name: string, seconds: number) =>
    world.orbweaver.submit({
      ...{ name, tenant: "capped", class: "inference", gang: { gpus: 2 } },
      run: { command: ["sleep", String(seconds)] },
    } as const);
  const first = await capped("capped-1", 600);
  await world.until("it holds its quota", ({ leases }) =>
    [...leases.values()].some(({ jobId, state }) => jobId === first.jobId && state === "held"),
  );
  const second = await capped("capped-2", 0);
  await world.until(
    "it waits for quota",
    ({ reasons }) =>
      [...reasons].find(([job]) => job === second.jobId)?.[1].code === "WaitingForQuota",
  );
  await world.orbweaver.job(first.jobId).cancel();
  await world.temporal.workflow.getHandle(second.jobId).result();
  const ofInference = quota.replace("training", "inference");
  await expect.poll(async () => valueOf(await scrape(), ofInference)).toBeGreaterThan(0);
  expect(valueOf(await scrape(), quota)).toBe(0);
  expect(await ofCapped("count")).toBe(2);
  expect(await ofCapped("bucket")).toBe(2);
});
