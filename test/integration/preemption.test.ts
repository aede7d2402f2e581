/**
 * @file Jobs that give up GPUs for others on a real fleet: what is saved, who runs when, and that no death in between changes it.
 */

import { DefaultLogger, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Post } from "../../protocol/control-contract.ts";
import { createDecider } from "../../activities/decider.ts";
import { userName } from "../../access/own-identity.ts";
import { signingKey } from "../../access/role-keys.ts";
import { createFleetActivities } from "../../activities/fleet-activities.ts";
import { createWordActivities, wordTrust } from "../../activities/word-checker.ts";
import { ticketPrinter } from "../../activities/tickets.ts";
import { createLobbyStore } from "../../activities/lobby-store.ts";
import { directoryStore } from "../../activities/store.ts";
import type { JobFile } from "../../client/index.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { FLEET_TASK_QUEUE, type JobResult, type JobView } from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { PATIENCE_MS, ROOT, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

/** Two hosts, eight GPUs in all; nothing is kept free for inference to come. */
const FLEET = `
name: preempting
policy: { reserve: 0, preemption: { perJob: 2, coolDown: 3s } }
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    silence: 6s
    fence: 300s
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "a[1-2]", gpus: 4, type: H100, rack: r12 }
`;

let world: World;
let notes: string;
beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  notes = await mkdtemp(path.join(tmpdir(), "orbweaver-preemption-"));
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
});
afterAll(async () => {
  await world.stop();
  removeFolder(notes);
});

/**
 * A trainer of `steps` steps of 0.1 s that goes on from its checkpoint. Rank 0 saves its step when it is told to, which takes
 * `saveSeconds`, and notes each run's first step and each step that it has done.
 */
const trainer = (name: string, steps: number, saveSeconds = 0): string[] => [
  "sh",
  "-c",
  `step=0
[ -z "\${ORBWEAVER_CHECKPOINT:-}" ] || step=$(cat "$ORBWEAVER_CHECKPOINT")
save() {
  dir=$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN
  mkdir -p "$dir"
  sleep ${String(saveSeconds)}
  echo $step > "$dir/step-$step.tmp"
  mv "$dir/step-$step.tmp" "$dir/step-$step"
}
if [ "$RANK" = 0 ]; then trap save USR1; else trap : USR1; fi
echo "rank $RANK from $step"
[ "$RANK" = 0 ] && echo "from $step on $ORBWEAVER_GPUS of $ORBWEAVER_GPUS_REQUESTED batch \${ORBWEAVER_BATCH:-none}" >> ${notes}/${name}
while [ $step -lt ${String(steps)} ]; do
  sleep 0.1
  step=$((step + 1))
  [ "$RANK" = 0 ] && echo "step $step" >> ${notes}/${name}
done
exit 0`,
];

const training = (name: string, steps: number, more: Partial<JobFile> = {}): JobFile => ({
  name,
  gang: 8,
  preemption: { minRuntime: "0s" },
  run: {
    command: trainer(name, steps),
    checkpoint: { signal: "USR1", grace: "20s" },
    grace: "1s",
  },
  ...more,
});

const inference = (gpus: number, seconds: number): JobFile => ({
  name: "answers",
  class: "inference",
  gang: gpus,
  run: { command: ["sleep", String(seconds)], grace: "1s" },
});

const submit = async (file: JobFile): Promise<string> => (await world.orbweaver.submit(file)).jobId;
const handle = (jobId: string) => world.temporal.workflow.getHandle(jobId);
const resultOf = async (jobId: string) => (await handle(jobId).result()) as JobResult;
const viewOf = (jobId: string): Promise<JobView> => world.orbweaver.job(jobId).view();

async function untilView(jobId: string, check: (view: JobView) => boolean): Promise<JobView> {
  for (const endAtMs = Date.now() + PATIENCE_MS; ;) {
    const view = await viewOf(jobId);
    if (check(view)) return view;
    if (Date.now() > endAtMs) throw new Error(`never came true: ${JSON.stringify(view)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function linesOf(name: string): Promise<readonly string[]> {
  const text = await readFile(path.join(notes, name), "utf8").catch(() => "");
  return text.trimEnd().split("\n");
}
const untilSteps = (name: string, count: number): Promise<void> =>
  expect.poll(async () => (await linesOf(name)).length).toBeGreaterThan(count);

/** Where each run began, after how many steps of the one before, and the steps in order without those done again. */
async function progressOf(name: string) {
  const lines = await linesOf(name);
  const starts = lines.flatMap((line) => (line.startsWith("from") ? [line] : []));
  const steps = lines.flatMap((line) => (line.startsWith("step") ? [Number(line.slice(5))] : []));
  return { starts, done: [...new Set(steps)], repeated: steps.length - new Set(steps).size };
}

const upTo = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at + 1);

/** The trainer runs on all GPUs; then somebody with a better right comes. */
async function evicted(file: JobFile, better = inference(4, 1)) {
  const train = await submit(file);
  await untilSteps(file.name, 5);
  const infer = await submit(better);
  return { train, infer };
}

const untilThere = (file: string): string[] => [
  ...["sh", "-c"],
  `until [ -e ${file} ]; do sleep 0.1; done`,
];

/** All that the trainer had to do was done, from the checkpoint of its first run on. */
async function expectResumed(name: string, steps: number, train: string): Promise<void> {
  const result = await resultOf(train);
  expect(result).toMatchObject({ attempts: 2, gpus: 8 });
  const { starts, done, repeated } = await progressOf(name);
  expect(done).toEqual(upTo(steps));
  expect(starts).toHaveLength(2);
  const { attempts } = await viewOf(train);
  const saved = Number(/step-(\d+)$/.exec(attempts[0]?.preempted?.checkpoint?.path ?? "")?.[1]);
  expect(saved, JSON.stringify(attempts)).toBeGreaterThanOrEqual(5);
  expect(starts[1]).toMatch(new RegExp(`^from ${String(saved)} on 8 of 8 `));
  expect(repeated).toBeLessThan(steps / 2);
}

const untilQuiet = () =>
  world.until(
    "nothing is held, wanted or set apart",
    ({ leases, requests, reservations }) =>
      leases.size === 0 && requests.size === 0 && (reservations?.size ?? 0) === 0,
  );

/** A fleet's worker that keeps its first order to give up a lease until it is told to carry on, and then has lost it. */
async function slowFleetWorker() {
  const connection = await NativeConnection.connect({ address: world.address });
  const decider = createDecider({
    storeDir: path.join(notes, "store"),
    onFallback: () => undefined,
  });
  const words = createWordActivities(wordTrust());
  const activities = createFleetActivities({
    client: world.temporal,
    decider,
    lobbyStore: createLobbyStore(directoryStore(path.join(notes, "store")), () => undefined),
    tickets: ticketPrinter(signingKey()),
    signatures: { firstStart: (_, start) => start },
    words,
    keepersOf: () => Promise.resolve([]),
  });
  let hear: () => void = () => undefined;
  const hasOrder = new Promise<void>((resolve) => {
    hear = resolve;
  });
  let carryOn: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    carryOn = resolve;
  });
  const worker = await Worker.create({
    connection,
    taskQueue: FLEET_TASK_QUEUE,
    workflowBundle: { codePath: path.join(ROOT, "dist/workflow-bundle.js") },
    dataConverter: createConverters().worker,
    activities: {
      ...activities,
      ...words,
      deliver: async (post: Post) => {
        if (post.evictions === undefined) return activities.deliver(post);
        hear();
        await gate;
        const { evictions: _lost, ...rest } = post;
        return activities.deliver(rest);
      },
    },
  });
  const running = worker.run();
  return {
    hasOrder,
    carryOn,
    stop: async () => {
      carryOn();
      worker.shutdown();
      await running;
      await decider.close();
      await connection.close();
    },
  };
}

describe("an inference job on a full fleet", () => {
  it("takes what is due to it from a training job, which saves its work, waits, and completes it", async () => {
    const go = path.join(notes, "saved-go");
    const answers = { ...inference(4, 0), run: { command: untilThere(go), grace: "1s" } };
    const { train, infer } = await evicted(training("saved", 120), answers);
    const { jobId } = world.orbweaver.job(train);
    await untilView(infer, ({ state }) => state === "running");
    const waiting = await untilView(train, ({ state }) => state === "pending");
    await writeFile(go, "");
    expect(waiting.attempts[0]).toMatchObject({
      end: "stopped",
      preempted: { forJob: infer, reason: expect.stringContaining("answers") as string },
    });
    expect((await resultOf(infer)).gpus).toBe(4);
    await expectResumed("saved", 120, train);
    const [first] = (await viewOf(train)).attempts;
    const ranSeconds = ((first?.endedAtMs ?? 0) - (first?.startedAtMs ?? 0)) / 1_000;
    expect(first?.preempted?.lostGpuSeconds).toBeLessThan(8 * ranSeconds);
    const { stdout } = await world.cli(["status", jobId]);
    expect(stdout).toMatch(
      new RegExp(`run 1: preempted for ${infer} after \\d+ s, checkpoint step-\\d+, \\d+ GPU-sec`),
    );
    const status = JSON.parse((await world.cli(["status", jobId, "--json"])).stdout) as unknown;
    expect(status).toMatchObject({
      ...{ user: userName(), spec: { priority: 0, tenant: "default" } },
      attempts: [
        {
          ...{ end: "stopped", gpus: [{ host: "alpha/a1" }, { host: "alpha/a2" }] },
          preempted: { forJob: infer, reason: expect.any(String) as string },
        },
        { end: "completed" },
      ],
    });
    const kept = await world.cli(["logs", jobId, "--attempt", "1", "--rank", "5"]);
    expect(kept).toMatchObject({ code: 0, stdout: "rank 5 from 0\n" });
    await untilQuiet();
  });

  it.each([
    { name: "jobs", steps: 150 },
    { name: "fleet", steps: 150 },
    // That an agent has died is noticed after half a minute, in which the trainer goes on; twice that is left to a busy machine.
    { name: "agent-alpha", steps: 700 },
  ])(
    "evicts all the same when $name is killed while the other one saves its work",
    async ({ name, steps }) => {
      const job = `killed-${name}`;
      const slow = { ...training(job, steps).run, command: trainer(job, steps, 3) };
      const { train, infer } = await evicted(training(job, steps, { run: slow }));
      await untilView(train, ({ state }) => state === "stopping");
      await world.kill(name);
      if (name === "agent-alpha") await world.startAgent("alpha");
      else await world.start(name, ["worker", "--role", name]);
      expect((await resultOf(infer)).gpus).toBe(4);
      await expectResumed(job, steps, train);
      await untilQuiet();
    },
  );

  it("evicts whole gangs so that its place comes free, and those that lose the least work", async () => {
    const granted = async (name: string, gpus: number, host: string): Promise<string> => {
      const id = await submit({
        ...{ name, gang: gpus, preemption: { minRuntime: "0s" }, constraints: { hosts: [host] } },
        run: { command: ["sleep", "600"], grace: "1s" },
      });
      await untilView(id, ({ state }) => state === "running");
      return id;
    };
    const better: JobFile = { ...inference(4, 1), constraints: { sameHost: true } };
    const evictedOf = async (ids: readonly string[]): Promise<readonly boolean[]> => {
      const views = await Promise.all(ids.map(viewOf));
      return views.map(({ attempts: [first] }) => first?.preempted !== undefined);
    };
    const end = async (ids: readonly string[]): Promise<void> => {
      for (const id of ids) await handle(id).cancel();
      await untilQuiet();
    };
    // The two that lose the least lie on two hosts; an elder beside each holds the rest. Only one host's two make a place.
    const pairs = [
      await granted("elder-1", 2, "alpha/a1"),
      await granted("elder-2", 2, "alpha/a2"),
      await granted("younger-1", 2, "alpha/a1"),
      await granted("younger-2", 2, "alpha/a2"),
    ];
    expect((await resultOf(await submit(better))).gpus).toBe(4);
    const [one, two, ...younger] = await evictedOf(pairs);
    expect([one, two]).toEqual(younger);
    expect([one, two].filter((isEvicted) => isEvicted)).toHaveLength(1);
    await end(pairs);

    // One gang that has run for longer, against two of the same size together: more leases, less work.
    const elder = await granted("elder", 4, "alpha/a1");
    const young = [
      await granted("young-1", 2, "alpha/a2"),
      await granted("young-2", 2, "alpha/a2"),
    ];
    expect((await resultOf(await submit(better))).gpus).toBe(4);
    expect(await evictedOf([elder, ...young])).toEqual([false, true, true]);
    await end([elder, ...young]);
  });

  it("waits for a job's minimum runtime, and says that it does", async () => {
    const guarded = await submit(
      training("guarded", 100_000, { preemption: { minRuntime: "1h" } }),
    );
    await untilSteps("guarded", 5);
    const infer = await submit(inference(4, 1));
    await world.until("it waits", ({ reasons }) => reasons.size === 1);
    const said = JSON.parse((await world.cli(["explain", infer, "--json"])).stdout) as unknown;
    expect(said).toMatchObject({ notYielding: [{ rule: "protected", gpus: 8 }] });
    expect((await viewOf(guarded)).attempts).toHaveLength(1);
    await handle(guarded).cancel();
    expect((await resultOf(infer)).gpus).toBe(4);
    await untilQuiet();
  });

  it("takes GPUs of one job no sooner again than after its cool-down, and no more often than the fleet says", async () => {
    const { train, infer } = await evicted(
      training("limited", 100_000, { preemption: { minRuntime: "2s" } }),
    );
    expect((await resultOf(infer)).gpus).toBe(4);
    // One that asks before the trainer has its GPUs again takes them without an order.
    const untilRun = (count: number): Promise<JobView> =>
      untilView(train, ({ attempts, state }) => attempts.length === count && state === "running");
    await untilRun(2);
    expect((await resultOf(await submit(inference(4, 1)))).gpus).toBe(4);
    await untilRun(3);
    const last = await submit(inference(4, 1));
    await world.until("it waits", ({ reasons }) => reasons.size === 1);
    const said = JSON.parse((await world.cli(["explain", last, "--json"])).stdout) as unknown;
    expect(said).toMatchObject({
      notYielding: [{ rule: "not-preemptible", gpus: 8, numbers: { maxPreemptions: 2 } }],
    });
    const place = { host: "alpha/a1", mask: 0xf, rack: "r12" };
    const status = JSON.parse((await world.cli(["status", train, "--json"])).stdout) as JobView;
    expect(status.attempts[2]?.gpus[0]).toMatchObject(place);
    expect((await world.cli(["status", train])).stdout).toMatch(
      /^runs on +alpha\/a1 GPU 0-3, rack r12$/m,
    );
    const { attempts } = await viewOf(train);
    const [first, second] = attempts;
    const protectedMs = (first?.preempted?.atMs ?? 0) - (first?.grantedAtMs ?? Infinity);
    expect(protectedMs).toBeGreaterThanOrEqual(2_000);
    expect(attempts.map(({ preempted }) => preempted === undefined)).toEqual([false, false, true]);
    const ranMs = (second?.preempted?.atMs ?? 0) - (second?.grantedAtMs ?? Infinity);
    expect(ranMs).toBeGreaterThanOrEqual(3_000);
    await handle(train).cancel();
    expect((await resultOf(last)).gpus).toBe(4);
    await untilQuiet();
  });

  it("that leaves before the order is on its way leaves the other one alone", async () => {
    await world.kill("fleet");
    const slow = await slowFleetWorker();
    try {
      const { train, infer } = await evicted(training("spared", 120));
      await slow.hasOrder;
      await handle(infer).cancel();
      await world.until("the order is taken back", ({ leases, reservations }) => {
        const isWithdrawn = [...leases.values()].every(({ eviction }) => eviction === undefined);
        return isWithdrawn && (reservations?.size ?? 0) === 0;
      });
      slow.carryOn();
      expect(await resultOf(train)).toMatchObject({ attempts: 1, gpus: 8 });
      expect((await progressOf("spared")).starts).toHaveLength(1);
      await untilQuiet();
    } finally {
      await slow.stop();
      await world.start("fleet", ["worker", "--role", "fleet"]);
    }
  });

  it("gets the GPUs of one that neither saves nor ends when it is told to", async () => {
    const command = [
      "sh",
      "-c",
      `trap "" USR1 TERM; echo started >> ${notes}/deaf; while :; do sleep 0.1; done`,
    ];
    const checkpoint = { signal: "USR1", grace: "2s" } as const;
    const deaf = training("deaf", 0, { run: { command, checkpoint, grace: "1s" } });
    const train = await submit(deaf);
    await expect.poll(async () => (await linesOf("deaf")).length).toBe(8);
    const infer = await submit(inference(4, 1));
    expect((await resultOf(infer)).gpus).toBe(4);
    const { attempts } = await viewOf(train);
    expect(attempts[0]?.preempted?.checkpoint).toBeUndefined();
    expect(attempts[0]?.preempted?.lostGpuSeconds).toBeGreaterThan(8);
    await handle(train).cancel();
    await expect(resultOf(train)).rejects.toMatchObject({ cause: { name: "CancelledFailure" } });
    await untilQuiet();
  });
});

describe("a gang that may be smaller", () => {
  it("takes less after its timeout although workers die meanwhile, its batch in step, and grows back", async () => {
    // It is a minute old before it is stopped for growing.
    const holder = await submit({ name: "holder", gang: 4, run: { command: ["sleep", "600"] } });
    await untilView(holder, ({ state }) => state === "running");
    const train = await submit(
      training("grows", 900, {
        gang: { gpus: 8, min: 2, timeout: "5s", grow: true },
        batch: 64,
      }),
    );
    const { leases } = await world.until("it waits", ({ requests }) => requests.size === 1);
    // Four of its eight GPUs are free, and it holds none of them.
    expect([...leases.values()].map(({ jobId }) => jobId)).toEqual([holder]);
    for (const name of ["fleet", "jobs"]) {
      await world.kill(name);
      await world.start(name, ["worker", "--role", name]);
    }
    await untilSteps("grows", 5);
    expect((await progressOf("grows")).starts).toEqual(["from 0 on 4 of 8 batch 32"]);
    const { stdout } = await world.cli(["status", train]);
    expect(stdout).toMatch(/^runs on +4 of 8 GPUs \(degraded\)$/m);

    await handle(holder).cancel();
    expect(await resultOf(train)).toMatchObject({ attempts: 2, gpus: 8 });
    const { starts, done } = await progressOf("grows");
    expect(starts[1]).toMatch(/^from \d+ on 8 of 8 batch 64$/);
    expect(done).toEqual(upTo(900));
    const [first] = (await viewOf(train)).attempts;
    expect(first?.preempted).toMatchObject({ forJob: train });
    await untilQuiet();
  });
});
