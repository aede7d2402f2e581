/**
 * @file Thousands of signals of junk to the runs beside the fleet: a job and an array use up all the signals that Temporal takes for a run, and are
 * told by updates from then on; a lobby, a presence and the learners begin their next run in time, also where what comes is heavy.
 */

import { defaultPayloadConverter } from "@temporalio/common";
import { randomUUID } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { DisbelievedSender } from "../../client/disbelieved.ts";
import type { JobFile, JobView } from "../../client/index.ts";
import { tenantId } from "../../domain/values/ids.ts";
import {
  BANDWIDTH_MODEL_WORKFLOW,
  bandwidthModelWorkflowId,
  COLLECTIVE_TUNER_WORKFLOW,
  collectiveTunerWorkflowId,
  FLEET_WORKFLOW,
  fleetWorkflowId,
  LINK_MONITOR_WORKFLOW,
  linkMonitorWorkflowId,
  LOBBY_WORKFLOW,
  lobbyWorkflowId,
  PRESENCE_WORKFLOW,
  presenceWorkflowId,
} from "../../protocol/messages.ts";
import { hearsNoSignal } from "../../protocol/signal-limit.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";
import { startedRun } from "./started-run.ts";

const FLEET = `
name: junk
policy: { reserve: 0 }
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: a1, gpus: 2, type: H100 }
`;

/** At 51,200 events the server ends a run. */
const MOST_EVENTS = 51_200;
const MOST_SIGNALS = 10_000;
const IN_FLIGHT = 50;
/** Names that nobody sends; the second looks like one of the SDK's own. */
const STRANGE = ["x", "__nobody"];
/** Those with which fleets and lobbies speak to jobs. */
const KNOWN = ["grant", "grants", "preempt", "pending", "fenced", "call-in"];

/** Of junk before a run begins its next one, which knows nothing of it any more. */
const FEW = 20;

let world: World;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "orbweaver-junk-"));
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
});
afterAll(async () => {
  await world.stop();
  removeFolder(dir);
});

/** Junk until so many were taken, or the server takes no more for the run; answers with their number. */
async function flood(workflowId: string, most: number, names: readonly string[]): Promise<number> {
  const run = world.temporal.workflow.getHandle(workflowId);
  let [sent, taken, isDeaf] = [0, 0, false];
  const lane = async (): Promise<void> => {
    while (!isDeaf && sent < most) {
      const at = (sent += 1);
      try {
        await run.signal(names[at % names.length] ?? "x", { junk: "x".repeat(80), at });
        taken += 1;
      } catch (error) {
        if (!hearsNoSignal(error)) throw error;
        isDeaf = true;
      }
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  return taken;
}

/** The line that the audit has of who sent the strange ones, by which run, with how often. `job`: of this one. */
async function expectAudited(
  least: number,
  { to, job = [] }: { readonly to?: string; readonly job?: readonly string[] },
): Promise<void> {
  const times = async (): Promise<number> => {
    const { stdout } = await world.cli(["audit", "--json", ...job]);
    const { words } = JSON.parse(stdout) as { readonly words: readonly DisbelievedSender[] };
    const line = words.find(
      ({ sender, to: by }) => sender === world.temporal.options.identity && by === to,
    );
    return line?.times ?? 0;
  };
  await expect.poll(times).toBeGreaterThanOrEqual(least);
}

const viewOf = (jobId: string): Promise<JobView> => world.orbweaver.job(jobId).view();
const until = async (jobId: string, holds: (view: JobView) => boolean): Promise<void> => {
  await expect.poll(async () => holds(await viewOf(jobId)), { interval: 200 }).toBe(true);
};

const leasesOf = ({ attempts, array }: JobView): readonly string[] =>
  [...attempts, ...(array?.leases ?? [])].map(({ leaseId }) => leaseId);
const isRunning = ({ state, array }: JobView): boolean =>
  state === "running" && (array === undefined || array.counts.running > 0);

/** The fleet orders it to give way, and grants it GPUs again afterwards. */
async function giveWay(): Promise<void> {
  const { jobId } = await world.orbweaver.submit({
    name: "urgent",
    class: "inference",
    gang: 2,
    run: { command: ["true"], grace: "1s" },
  });
  await world.temporal.workflow.getHandle(jobId).result();
}

/** The tasks of arrays are not evicted. */
async function pause(jobId: string): Promise<void> {
  const job = world.orbweaver.job(jobId);
  await job.suspend();
  await until(jobId, ({ state }) => state === "held");
  await job.release();
}

it.each([
  { name: "job", file: { gang: 2 }, interrupt: giveWay },
  { name: "array", file: { gang: 1, array: { count: 2 } }, interrupt: pause },
])(
  "a running $name that hears no further signal stops, starts again and ends",
  async ({ name, file, interrupt }) => {
    const go = path.join(dir, name);
    const train: JobFile = {
      ...file,
      name,
      preemption: { minRuntime: "0s" },
      run: {
        command: ["sh", "-c", `until [ -e ${go} ]; do sleep 0.1; done`],
        checkpoint: { signal: "USR1", grace: "5s" },
        grace: "1s",
      },
    };
    const { jobId } = await world.orbweaver.submit(train);
    await until(jobId, isRunning);
    const former = leasesOf(await viewOf(jobId));

    const taken = await flood(jobId, 2 * MOST_SIGNALS, [...KNOWN, ...STRANGE]);
    expect(taken).toBeLessThan(MOST_SIGNALS);
    await interrupt(jobId);
    await until(
      jobId,
      (view) => isRunning(view) && leasesOf(view).some((lease) => !former.includes(lease)),
    );
    // An array does not count the grants of a job.
    expect((await viewOf(jobId)).junkSignals).toBeGreaterThan(0.8 * taken);
    const strange = STRANGE.length / (STRANGE.length + KNOWN.length);
    await expectAudited(0.8 * strange * taken, { job: ["--job", jobId] });

    await writeFile(go, "");
    const run = world.temporal.workflow.getHandle(jobId);
    await run.result();
    expect((await run.describe()).historyLength).toBeLessThan(MOST_EVENTS);
    await world.until("no lease is left", ({ leases }) => leases.size === 0);
  },
);

const TENANT = tenantId("nobody");
const TOPOLOGY = {
  cluster: "alpha",
  name: "1x2-H100",
  nodes: 1,
  ranks: 2,
  hasNvlink: false,
  hasNvlinkSharp: false,
};

const ATTENDANTS = [
  [FLEET_WORKFLOW, () => fleetWorkflowId(world.fleet), {}],
  [PRESENCE_WORKFLOW, () => presenceWorkflowId(world.fleet, "alpha"), []],
  [LOBBY_WORKFLOW, () => lobbyWorkflowId(world.fleet, TENANT), { tenant: TENANT }],
  [
    BANDWIDTH_MODEL_WORKFLOW,
    () => bandwidthModelWorkflowId(world.fleet, "alpha"),
    { cluster: "alpha" },
  ],
  [LINK_MONITOR_WORKFLOW, () => linkMonitorWorkflowId(world.fleet), {}],
  [
    COLLECTIVE_TUNER_WORKFLOW,
    () => collectiveTunerWorkflowId(world.fleet, TOPOLOGY),
    { topology: TOPOLOGY },
  ],
] as const;

it.each(ATTENDANTS)(
  "%s begins its next run before junk has used up the signals of one",
  async (type, idOf, input) => {
    const workflowId = idOf();
    const run = await startedRun(world, type, { workflowId, ...input });
    const { runId } = await run.describe();
    expect(await flood(workflowId, FEW, STRANGE)).toBe(FEW);
    await expectAudited(FEW, type === FLEET_WORKFLOW ? {} : { to: workflowId });
    expect(await flood(workflowId, 1_500, STRANGE)).toBe(1_500);
    await expect.poll(async () => (await run.describe()).runId === runId).toBe(false);
    expect((await run.describe()).status.name).toBe("RUNNING");
  },
);

/** Of history the server takes so much for a run, and 4 MiB in a message: without a count of headers this ends any run. */
const MOST_HISTORY_BYTES = 50 * 1024 * 1024;
const HEADER_BYTES = 3_900_000;

/** Without a solver a bandwidth model waits for one first. */
const AT_REST = ATTENDANTS.filter(([type]) => type !== BANDWIDTH_MODEL_WORKFLOW);

it.each(AT_REST)(
  "%s begins its next run before headers have used up the history of one",
  async (type, idOf, input) => {
    const workflowId = idOf();
    const run = await startedRun(world, type, { workflowId, ...input });
    const first = await run.describe();
    const header = defaultPayloadConverter.toPayload("y".repeat(HEADER_BYTES));
    let before = first;
    for (let bytes = 0; before.runId === first.runId; bytes += HEADER_BYTES) {
      expect(bytes).toBeLessThan(MOST_HISTORY_BYTES);
      await world.temporal.workflowService.signalWorkflowExecution({
        namespace: world.temporal.options.namespace,
        workflowExecution: { workflowId },
        signalName: "x",
        requestId: randomUUID(),
        header: { fields: { junk: header } },
      });
      // With its task. More at once than a task hears would be too much for any run.
      const { runId, historyLength } = before;
      await expect
        .poll(async () => {
          const now = await run.describe();
          return now.runId !== runId || now.historyLength >= historyLength + 4;
        })
        .toBe(true);
      before = await run.describe();
    }
    const { status } = await world.temporal.workflow.getHandle(workflowId, first.runId).describe();
    expect(status.name).toBe("CONTINUED_AS_NEW");
  },
);
