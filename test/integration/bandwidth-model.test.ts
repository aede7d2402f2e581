/** @file A bandwidth model on a real server: it learns from what is measured, a solver worker that dies in training costs nothing, and rollback works. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { openBandwidthModel } from "../../client/bandwidth-model.ts";
import type { JobView } from "../../client/index.ts";
import { clusterId, jobId, parseHostId } from "../../domain/values/ids.ts";
import {
  BANDWIDTH_MODEL_RULES,
  BANDWIDTH_MODEL_WORKFLOW,
  bandwidthModelWorkflowId,
  JOB_TASK_QUEUE,
  keptMessagesQuery,
  keptStepsQuery,
  measuredSignal,
  type MeasuredNote,
} from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";

const FLEET = `
name: learning
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    hosts:
      - { name: "a[1-4]", gpus: 4, type: H100 }
`;
const ALPHA = clusterId("alpha");

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
  await world.start("solver", ["worker", "--role", "solver"]);
});
afterAll(async () => {
  await model()
    .terminate("end of test")
    .catch(() => undefined);
  await world.stop();
});

const model = () =>
  world.temporal.workflow.getHandle(bandwidthModelWorkflowId(world.fleet, "alpha"));

/** Pairs of hosts: what the smaller part carries, times `share`; sets of one size differ, so a guess by size is no model. */
function words(name: string, share: number): readonly MeasuredNote[] {
  const hosts = ["a1", "a2", "a3", "a4"];
  const found: MeasuredNote[] = [];
  for (const [at, first] of hosts.entries())
    for (const second of hosts.slice(at + 1))
      for (const [left, right] of [
        [1, 1],
        [3, 3],
        [7, 1],
        [7, 3],
        [15, 1],
        [7, 7],
        [15, 3],
        [15, 15],
      ] as const)
        found.push({
          jobId: jobId(`${name}-${String(found.length)}`),
          runId: "run",
          attempt: 1,
          window: 0,
          gpus: [
            { host: parseHostId(`alpha/${first}`), mask: left },
            { host: parseHostId(`alpha/${second}`), mask: right },
          ],
          gbs: share * 20 * right.toString(2).length,
          atMs: Date.now(),
        });
  return found;
}

const tell = (said: readonly MeasuredNote[]): Promise<unknown> =>
  world.temporal.workflow.signalWithStart(BANDWIDTH_MODEL_WORKFLOW, {
    workflowId: bandwidthModelWorkflowId(world.fleet, "alpha"),
    taskQueue: JOB_TASK_QUEUE,
    args: [{ fleet: world.fleet, cluster: "alpha", rules: BANDWIDTH_MODEL_RULES }],
    signal: measuredSignal,
    signalArgs: [said],
  });

const served = async (): Promise<string | undefined> =>
  (await world.ledger()).models?.get(ALPHA)?.version;

it("the first version serves as soon as enough was measured, and the fleet is told", async () => {
  await tell(words("first", 1));
  await world.until("v1 serves", ({ models }) => models?.get(ALPHA)?.version === "v1");
  const { stdout } = await world.cli(["model", "list", "--json"]);
  expect(JSON.parse(stdout)).toMatchObject({
    clusters: [
      { cluster: "alpha", serving: "v1", versions: [{ version: "v1", gate: { holds: true } }] },
    ],
  });
});

it("a gang over hosts is granted by it, and shows what was expected beside what it measured", async () => {
  const { jobId: id } = await world.orbweaver.submit({
    name: "measuring",
    gang: { gpus: 6 },
    run: { command: ["sh", "-c", 'echo 55 > "$ORBWEAVER_BANDWIDTH_FILE"'] },
  });
  const job = world.orbweaver.job(id);
  await job.result();
  const { attempts } = await job.view();
  expect(attempts).toMatchObject([{ bandwidth: { model: "v1" }, measuredGbs: 55 }]);
  expect(attempts[0]?.bandwidth?.predictedGbs).toBeGreaterThan(0);
});

it("what a tuned job was seen to send is what the next ones of its name are placed for, unless they say what they send", async () => {
  /** As its plugin would have counted it. */
  const program = `
    const { crc32 } = require("node:zlib");
    const body = "orbweaver-sent 1\\nallgather 16777216 134217727 calls 90 bytes 6039797760 timed 90 micros 7000\\n";
    const end = "end " + crc32(body).toString(16).padStart(8, "0") + "\\n";
    if (process.env.RANK === "0")
      require("node:fs").writeFileSync(process.env.ORBWEAVER_COLLECTIVES_REWARDS + ".sent", body + end);`;
  const status = async (more: object): Promise<Shown> => {
    const { jobId: id } = await world.orbweaver.submit({
      ...{ name: "sender", gang: { gpus: 6 }, run: { command: ["true"] } },
      ...more,
    });
    await world.orbweaver.job(id).result();
    const { stdout } = await world.cli(["status", id, "--json"]);
    return JSON.parse(stdout) as Shown;
  };
  interface Shown {
    readonly messages?: object;
    readonly attempts: readonly JobView["attempts"][number][];
  }
  const tuned = {
    collectives: { tune: true },
    run: { command: [process.execPath, "-e", program] },
  };
  expect((await status(tuned)).messages).toBeUndefined();
  const sent = [{ collective: "all_gather", bytes: 64 * 2 ** 20, share: 1 }];
  await expect
    .poll(() => model().query(keptMessagesQuery), { interval: 250 })
    .toMatchObject([{ name: "sender", gpus: 6, sent }]);
  const learned = {
    from: "learned",
    collective: "all_gather",
    bytes: 64 * 2 ** 20,
    jobs: 1,
    share: 1,
  };
  await expect.poll(async () => (await status({})).messages, { interval: 2_000 }).toEqual(learned);
  const { attempts } = await status({});
  expect(attempts[0]?.bandwidth?.model).toBe("v1 at 64 MiB all_gather, learned from 1 job (100 %)");
  const stated = await status({ communication: { size: "2GiB" } });
  expect(stated.messages).toEqual({ from: "stated", collective: "all_reduce", bytes: 2 ** 31 });
  expect(stated.attempts[0]?.bandwidth?.model).not.toContain("learned");
});

it("the step that a planned job measured is shown beside the prediction, and corrects the plan of the next", async () => {
  /** As a trainer would whose steps take half as long again as its plan says. */
  const program = `
    const { readFileSync, appendFileSync } = require("node:fs");
    const { predicted } = JSON.parse(readFileSync(process.env.ORBWEAVER_PLAN, "utf8"));
    if (process.env.RANK === "0")
      for (let step = 0; step < 12; step += 1)
        appendFileSync(process.env.ORBWEAVER_STEPS_FILE, 1.5 * predicted.stepMs + "\\n");`;
  const run = async () => {
    const { jobId: id } = await world.orbweaver.submit({
      name: "stepping",
      gang: { gpus: 2 },
      model: "gpt2-350m",
      batch: 32,
      run: { command: [process.execPath, "-e", program] },
    });
    await world.orbweaver.job(id).result();
    const { stdout } = await world.cli(["status", id, "--json"]);
    return JSON.parse(stdout) as {
      readonly step: Readonly<Record<"predictedMs" | "measuredMs" | "error", number>>;
      readonly attempts: readonly JobView["attempts"][number][];
    };
  };
  const first = await run();
  expect(first.step.measuredMs).toBeCloseTo(1.5 * first.step.predictedMs, 3);
  expect(first.step.error).toBeCloseTo(-1 / 3, 3);
  await expect
    .poll(() => model().query(keptStepsQuery), { interval: 250 })
    .toMatchObject([{ gpuType: "H100", measuredMs: first.step.measuredMs }]);
  const second = await run();
  expect(second.attempts[0]?.launchExtras?.[0]?.message).toMatch(/corrected by 1 measured run: /);
  expect(second.step.predictedMs).toBeGreaterThan(1.2 * first.step.predictedMs);
});

it("a solver worker that is killed in training costs nothing: the good version serves on, and the next worker publishes", async () => {
  await tell(words("second", 0.5));
  const handle = openBandwidthModel(world.temporal, { fleet: world.fleet, cluster: "alpha" });
  const training = handle.train({ isFromNothing: true });
  await expect
    .poll(
      async () => {
        const { raw } = await model().describe();
        return raw.pendingActivities?.some(
          ({ activityType, lastHeartbeatTime }) =>
            activityType?.name === "trainModel" && (lastHeartbeatTime ?? null) !== null,
        );
      },
      { interval: 50 },
    )
    .toBe(true);
  await world.kill("solver");
  expect(await served()).toBe("v1");
  expect(await handle.view()).toMatchObject({ serving: { version: "v1" }, busy: "training" });
  await world.start("solver", ["worker", "--role", "solver"]);
  expect(await training).toMatchObject({ kind: "serves", version: "v2", cause: "command" });
  await world.until("v2 serves", ({ models }) => models?.get(ALPHA)?.version === "v2");
});

it("a rollback brings the version back that served before, and holds training until it is asked for", async () => {
  const { code, stdout } = await world.cli(["model", "rollback", "alpha"]);
  expect([code, stdout]).toEqual([0, "v1 serves in alpha\n"]);
  await world.until("v1 serves", ({ models }) => models?.get(ALPHA)?.version === "v1");
  const { stdout: shown } = await world.cli(["model", "show", "alpha", "--json"]);
  expect(JSON.parse(shown)).toMatchObject({ used: "v1", isHeld: true });
  const refused = await world.cli(["model", "rollback", "alpha", "--to", "v9"]);
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toMatch(/there is no version v9/);
  expect(await served()).toBe("v1");
});
