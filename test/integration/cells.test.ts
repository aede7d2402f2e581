/**
 * @file Jobs that several fleets may run, on a real server: who is asked when, and that exactly one fleet runs each, whatever happens to the link
 * between jobs and fleets while they are offered.
 */

import { Client } from "@temporalio/client";
import { DefaultLogger, NativeConnection, Runtime } from "@temporalio/worker";
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openProxy, type Proxy } from "../../bench/storm/proxy.ts";
import { startFleet } from "../../cli/up/fleet-start.ts";
import type { JobFile, JobView } from "../../client/index.ts";
import { unpackLedger } from "../../scheduling/ledger/codec.ts";
import { fleetWorkflowId, ledgerQuery } from "../../protocol/messages.ts";
import { eventually, playFleet, type PlayedFleet } from "../support/played-fleet.ts";
import { serverAddress } from "../support/server-address.ts";
import { fleetOf, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

describe("a job that is offered to a second fleet", () => {
  let connection: NativeConnection;
  let fleet: PlayedFleet;
  beforeAll(async () => {
    Runtime.install({ logger: new DefaultLogger("ERROR") });
    connection = await NativeConnection.connect({ address: serverAddress() });
  });
  afterAll(() => connection.close());
  beforeEach(async () => {
    fleet = await playFleet({ connection, client: new Client({ connection }) });
    return () => fleet.stopWorker();
  });

  const over = (seq: number) => ({
    seq,
    reason: { code: "PatienceOver", message: "full", numbers: {}, holders: [], wakeOn: ["timer"] },
  });
  const words = () =>
    fleet.toldTo.map(({ fleet: to, entry }) =>
      entry.kind === "request"
        ? `${to}: request ${String(entry.request.seq)}`
        : `${to}: ${entry.kind} ${String("seq" in entry ? entry.seq : "")}`,
    );

  it("asks it only when the first holds nothing of it any more, and runs on nothing that comes late from there", async () => {
    let isForgotten = false;
    fleet.played.forgotten = async () => {
      while (!isForgotten) await new Promise((resolve) => setTimeout(resolve, 20));
    };
    const job = await fleet.start({
      file: { fleets: ["us"], patience: "1s" },
      options: { fleet: "eu" },
    });
    await eventually(() => expect(fleet.requests().length).toBe(1));
    await job.signal("pending", over(1));
    await eventually(() => expect(words()).toEqual(["eu: end 1"]));
    // A fleet that asks meanwhile hears nothing of a new request, and a late grant starts nothing.
    await job.signal("assert");
    await job.signal("grant", fleet.grantOf(job.workflowId, 1));
    await eventually(() =>
      expect(words()).toEqual(["eu: end 1", ...["eu: end 1", "eu: end 1", "us: end 1"]]),
    );
    isForgotten = true;
    await eventually(() => expect(words().at(-1)).toBe("us: request 2"));
    await job.signal("grant", fleet.grantOf(job.workflowId, 1));
    await job.signal("grant", fleet.grantOf(job.workflowId, 2));
    await job.result();
    expect(fleet.runs).toEqual(["lease-2"]);
    const view: JobView = await job.query("job");
    expect(view).toMatchObject({ fleet: "us", cells: { home: "eu", moved: 1, round: 1 } });
  });

  it("that is cancelled while the first has not let go ends at once, and asks nobody else", async () => {
    let letGo: () => void = () => undefined;
    fleet.played.forgotten = () => new Promise((resolve) => (letGo = resolve));
    const job = await fleet.start({ file: { fleets: ["us"] }, options: { fleet: "eu" } });
    await eventually(() => expect(fleet.requests().length).toBe(1));
    await job.signal("pending", over(1));
    await eventually(() => expect(words()).toEqual(["eu: end 1"]));
    await job.cancel();
    await expect(job.result()).rejects.toMatchObject({ cause: { name: "CancelledFailure" } });
    expect(words()).toEqual(["eu: end 1", "eu: end 2"]);
    expect(fleet.runs).toEqual([]);
    letGo();
  });
});

describe("two fleets", () => {
  const OTHER = `u${randomBytes(4).toString("hex")}`;
  const clusterOf = (name: string, hosts: string): string => `
name: ${name}
clusters:
  - name: ${name}
    site: ${name}
    jurisdiction: EU
    simulated: true
    hosts:
      - { name: "${hosts}", gpus: 2, type: H100 }
`;
  let world: World;
  let proxy: Proxy;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "orbweaver-cells-"));
    const address = serverAddress();
    world = await startWorld({ address, fleetYaml: clusterOf("near", "n1") });
    const fleet = fleetOf(clusterOf("far", "f1"));
    await startFleet(world.temporal, { name: OTHER, fleet, detailsHash: undefined });
    const agent = ["worker", "--role", "agent", "--cluster", "far", "--fleet", OTHER];
    await world.start("agent-far", agent);
    proxy = await openProxy({ port: Number(address.split(":").at(-1)) });
  });
  afterAll(async () => {
    await world.stop();
    for (const id of [fleetWorkflowId(OTHER), `orbweaver-presence-${OTHER}-far`])
      await world.temporal.workflow
        .getHandle(id)
        .terminate("end of test")
        .catch(() => undefined);
    await proxy.close();
    removeFolder(folder);
  });

  /** Each start of a job's processes is a line. */
  const witness = (name: string): string => path.join(folder, name);
  const file = (name: string, more: Partial<JobFile> = {}): JobFile => ({
    name,
    gang: { gpus: 2 },
    run: {
      command: ["sh", "-c", `echo "$ORBWEAVER_HOST" >> ${witness(name)}; sleep 0.3`],
      launch: "per-host",
    },
    ...more,
  });
  const startsOf = async (name: string): Promise<readonly string[]> =>
    (await readFile(witness(name), "utf8").catch(() => "")).trim().split("\n").filter(Boolean);
  const otherLedger = async () =>
    unpackLedger(
      await world.temporal.workflow.getHandle(fleetWorkflowId(OTHER)).query(ledgerQuery),
    );

  it("run a job where there is room, and say why it moved", async () => {
    const blocker = await world.orbweaver.submit(
      file("blocker", { run: { command: ["sleep", "600"], grace: "1s" } }),
    );
    await world.until("the home is full", (ledger) => ledger.leases.size === 1);
    const { jobId } = await world.orbweaver.submit(
      file("mover", { fleets: [OTHER], patience: "1s" }),
    );
    await world.temporal.workflow.getHandle(jobId).result();
    expect(await startsOf("mover")).toEqual(["far/f1"]);
    const status = await world.cli(["status", jobId]);
    expect(status.stdout).toMatch(new RegExp(`${OTHER}, home ${world.fleet}.*PatienceOver`, "s"));
    const list = await world.cli(["list", "--all", "--json"]);
    expect(JSON.parse(list.stdout)).toMatchObject({
      jobs: expect.arrayContaining([expect.objectContaining({ jobId, fleet: OTHER })]) as unknown,
    });
    await world.orbweaver.job(blocker.jobId).cancel();
    await world.until("all is over", ({ leases, requests }) => leases.size + requests.size === 0);
  });

  it("move a waiting and a running job by order, which goes on from its checkpoint, and lose nothing while a worker is away", async () => {
    const steps = path.join(folder, "steps");
    const last = '$(basename "${ORBWEAVER_CHECKPOINT:-0}")';
    const script = `n=${last}; echo "$ORBWEAVER_HOST $n" >> ${witness("runner")}
      [ -e ${folder}/finish ] && exit 0
      trap 'd="$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN"; touch "$d/$((n + 1)).tmp"; mv "$d/$((n + 1)).tmp" "$d/$((n + 1))"' USR1
      while :; do sleep 0.05; done`;
    const runner = await world.orbweaver.submit(
      file("runner", {
        run: {
          command: ["sh", "-c", script],
          launch: "per-host",
          grace: "1s",
          checkpoint: { signal: "USR1", dir: steps, grace: "2m" },
        },
      }),
    );
    await expect.poll(() => startsOf("runner")).toEqual(["near/n1 0"]);
    const waiter = await world.orbweaver.submit(file("waiter"));
    await world.until("one waits", ({ requests }) => requests.size === 1);
    const { submittedAtMs } = await world.orbweaver.job(waiter.jobId).view();
    const moved = await world.cli(["move", waiter.jobId, "--fleet", OTHER, "--json"]);
    expect(JSON.parse(moved.stdout)).toMatchObject({
      jobs: [{ jobId: waiter.jobId, moved: { from: world.fleet, to: OTHER, state: "pending" } }],
    });
    await world.temporal.workflow.getHandle(waiter.jobId).result();
    expect(await startsOf("waiter")).toEqual(["far/f1"]);
    const view = await world.orbweaver.job(waiter.jobId).view();
    expect([view.fleet, view.submittedAtMs]).toEqual([OTHER, submittedAtMs]);

    // The fleet that is left cannot let go while its worker is away: the job waits for it, and is in neither or in both at no time.
    await world.kill("fleet");
    // One worker serves both, so the other one cannot be asked either.
    await world.orbweaver.job(runner.jobId).move(OTHER, { isQueuedAnyway: true });
    await expect
      .poll(async () => (await world.orbweaver.job(runner.jobId).view()).attempts.at(-1)?.end)
      .toBe("stopped");
    expect(await startsOf("runner")).toHaveLength(1);
    await world.start("fleet", ["worker", "--role", "fleet"]);
    await expect.poll(() => startsOf("runner")).toEqual(["near/n1 0", "far/f1 1"]);
    await world.orbweaver.job(runner.jobId).move(world.fleet);
    await expect.poll(() => startsOf("runner")).toEqual(["near/n1 0", "far/f1 1", "near/n1 2"]);
    await writeFile(path.join(folder, "finish"), "");
    await world.orbweaver.job(runner.jobId).requeue();
    await world.temporal.workflow.getHandle(runner.jobId).result();
    expect((await startsOf("runner")).at(-1)).toBe("near/n1 3");
    const status = await world.cli(["status", runner.jobId]);
    expect(status.stdout).toMatch(/moved +\S+ → \S+ .* ago: Ordered, .* has moved it/);
  });

  it("refuse what cannot be moved, each with one clear error", async () => {
    const { jobId } = await world.orbweaver.submit(file("large", { gang: { gpus: 64 } }), {
      isQueuedAnyway: true,
    });
    const tasks = await world.orbweaver.submit(file("tasks", { hold: true, array: { count: 2 } }));
    const refusal = async (job: string, fleet: string): Promise<string> =>
      (await world.cli(["move", job, "--fleet", fleet])).stderr;
    expect(await refusal(jobId, OTHER)).toMatch(
      /NEVER_STARTS: \S+ would never start .*It was not moved/s,
    );
    expect(await refusal(jobId, "nowhere")).toContain("nowhere");
    expect(await refusal(tasks.jobId, OTHER)).toContain("is an array, which stays in its fleet");
    expect((await world.cli(["move", jobId])).stderr).toContain("Write --fleet NAME");
    for (const id of [jobId, tasks.jobId]) await world.orbweaver.job(id).cancel();
  });

  it("run each job once, although the link of the jobs' worker drops in the middle of offers", async () => {
    await world.kill("jobs");
    await world.start("jobs", ["worker", "--role", "jobs", "--address", proxy.address]);
    const names = Array.from({ length: 4 }, (_, at) => `storm-${String(at)}`);
    const jobs = await Promise.all(
      names.map((name) =>
        world.orbweaver.submit(file(name, { fleets: [OTHER], patience: "500ms" })),
      ),
    );
    // Every job is on its way to and fro: between two cuts there is time for a few words.
    for (const kind of ["hang", "reset", "hang"] as const) {
      await new Promise((resolve) => setTimeout(resolve, 350));
      proxy.cut(kind);
      await new Promise((resolve) => setTimeout(resolve, 650));
      proxy.mend();
    }
    await Promise.all(jobs.map(({ jobId }) => world.temporal.workflow.getHandle(jobId).result()));
    const starts = await Promise.all(names.map(startsOf));
    expect(starts.map((lines) => lines.length)).toEqual(names.map(() => 1));
    const views = await Promise.all(jobs.map(({ jobId }) => world.orbweaver.job(jobId).view()));
    expect(views.reduce((sum, { cells }) => sum + (cells?.moved ?? 0), 0)).toBeGreaterThan(0);
    await world.until(
      "the home holds nothing",
      ({ leases, requests }) => leases.size + requests.size === 0,
    );
    await expect
      .poll(async () => {
        const { leases, requests } = await otherLedger();
        return leases.size + requests.size;
      })
      .toBe(0);
  });
});
