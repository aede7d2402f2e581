/**
 * @file From the release before rules 2 to this one, with 40 jobs: workers, then agents, back, forward, the commit, and old workers after it.
 *
 * Nothing is lost: every job completes. Nothing starts twice: every rank notes its start in a file. Nothing is non-deterministic: no workflow
 * task fails, and every history replays on this release, and on the old one as far as it may take a run over. The steps build on each other.
 */

import type { History } from "@temporalio/common/lib/proto-utils.js";
import { DefaultLogger, Runtime, Worker } from "@temporalio/worker";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { JobFile } from "../../client/index.ts";
import { isUncharged } from "../../machines/gang/retry-verdict.ts";
import { jobViewQuery } from "../../protocol/messages.ts";
import { NEWEST_RULES } from "../../scheduling/ledger/ledger.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT } from "../support/world.ts";
import {
  CLUSTERS,
  CONTROL,
  startTwoReleases,
  type Release,
  type TwoReleases,
} from "./two-releases.ts";

const JOBS = 40;
/** By identity, the processes that took workflow tasks after the commit must be of this release. */
const NEW_IDENTITY = new RegExp(`orbweaver=\\S+ rules=${NEWEST_RULES}`);

Runtime.install({ logger: new DefaultLogger("ERROR") });

let two: TwoReleases;
const jobs: { readonly id: string; readonly name: string; readonly ranks: number }[] = [];

beforeAll(async () => {
  two = await startTwoReleases(serverAddress());
  process.stderr.write(`the release before rules 2: ${two.from}\n`);
  await two.start("old", [...CONTROL, ...CLUSTERS]);
});
afterAll(() => two.end());

/** Jobs of one to eight GPUs; those of more than four run on two hosts. Some run, and some wait, when the next step begins. */
async function submit(release: Release, count: number): Promise<void> {
  for (let nth = 0; nth < count; nth += 1) {
    const name = `job-${jobs.length}`;
    const gpus = [1, 2, 4, 8][jobs.length % 4] ?? 1;
    const file = path.join(two.dir, name);
    const script = `echo "$RANK" >>'${file}.started'; sleep ${1 + (jobs.length % 3)}; echo "$RANK" >>'${file}.done'`;
    const job: JobFile = {
      name,
      gang: { gpus },
      run: { command: ["sh", "-c", script], grace: "2s" },
    };
    jobs.push({ id: await two.submit(release, job), name, ranks: gpus });
  }
}

const ranksIn = (file: string): readonly string[] =>
  existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").sort() : [];

const rulesNow = async (): Promise<number> => (await two.ledger()).applyVersion;

/** Whatever ran on with the former workers goes on with these. */
async function replace(release: Release, roles: readonly string[]): Promise<void> {
  await two.stop(roles);
  await two.start(release, roles);
}

it("new workers, then new agents, go on by rules 1", async () => {
  await submit("old", 12);
  await replace("new", CONTROL);
  await submit("new", 6);
  expect(await rulesNow()).toBe(1);
  const refused = await two.cli("fleet", "upgrade", "--json");
  expect(refused.code).toBe(1);
  expect(refused.said).toContain("OLDER_PROCESSES_ALIVE");
  for (const cluster of CLUSTERS) expect(refused.said).toContain(`${two.pidOf(cluster)}@`);
  await replace("new", CLUSTERS);
  await submit("new", 4);
  expect(await rulesNow()).toBe(1);
});

it("the old release takes over again before the commit", async () => {
  await replace("old", CONTROL);
  await submit("old", 4);
  await replace("old", CLUSTERS);
  await submit("old", 4);
  expect(await rulesNow()).toBe(1);
});

it("forward again, an old worker beside the new ones prevents the commit, and then it is committed", async () => {
  await replace("new", CLUSTERS);
  const older = two.pidOf("jobs");
  await replace("new", ["fleet", "solver"]);
  await submit("new", 4);
  const refused = await two.cli("fleet", "upgrade", "--json");
  expect(refused.said).toContain(`${older}@`);
  await replace("new", ["jobs"]);
  const shown = await two.cli("fleet", "show", "--json");
  expect(JSON.parse(shown.said)).toMatchObject({
    rules: { rules: 1, newest: NEWEST_RULES, canUpgrade: true },
  });
  const committed = await two.cli("fleet", "upgrade", "--json");
  expect(JSON.parse(committed.said), committed.said).toEqual({
    fleet: two.fleet,
    from: 1,
    rules: NEWEST_RULES,
  });
  await submit("new", 4);
  expect(await rulesNow()).toBe(NEWEST_RULES);
});

it("an old worker gets no task after the commit, and cannot take the routing back", async () => {
  await two.stop(CONTROL);
  await two.start("old", CONTROL);
  await submit("new", 2);
  await sleep(5_000);
  const [waiting] = jobs.slice(-1);
  const { events } = await two.temporal.workflow.getHandle(waiting?.id ?? "").fetchHistory();
  expect(events?.filter((event) => event.workflowTaskStartedEventAttributes)).toEqual([]);
  const { undeployAll } = (await import(
    path.join(two.oldRoot, "dist/workers/on-demand/deployment.js")
  )) as typeof import("../../workers/on-demand/deployment.ts"); // our own build
  await expect(undeployAll(two.temporal)).rejects.toThrow(`rules ${NEWEST_RULES} are committed`);
  await replace("new", CONTROL);
  expect(jobs).toHaveLength(JOBS);
});

/**
 * A run may end before a process of it starts: a fleet worker of the old release prints no tickets, so that hosts of this one refuse its lease; a gang
 * whose hosts are not ready together in time, or whose agent is told to end before it has started its part, asks again. Such a run is not charged to
 * the job, and the next one starts all ranks.
 */
it("every job has completed, and every rank has started once", async () => {
  for (const { id, name, ranks } of jobs) {
    const handle = two.temporal.workflow.getHandle(id);
    await handle.result();
    const { attempts } = await handle.query(jobViewQuery);
    const runs = attempts.map(({ end, cause, startedAtMs }) => ({ end, cause, startedAtMs }));
    const said = `${name}: ${JSON.stringify(runs)}`;
    const want = Array.from({ length: ranks }, (_, rank) => String(rank)).sort();
    expect(ranksIn(path.join(two.dir, `${name}.started`)), said).toEqual(want);
    expect(ranksIn(path.join(two.dir, `${name}.done`)), said).toEqual(want);
    expect(runs.at(-1)?.end, said).toBe("completed");
    for (const { cause } of runs.slice(0, -1))
      expect(isUncharged(cause?.code ?? "STOPPED"), said).toBe(true);
  }
});

interface Kept {
  readonly workflowId: string;
  readonly type: string;
  readonly history: History;
  /** Before the commit either release may have to go on with it. */
  readonly isBefore: boolean;
}

async function histories(): Promise<readonly Kept[]> {
  const kept: Kept[] = [];
  for await (const { workflowId, runId, type } of two.temporal.workflow.list()) {
    const history = await two.temporal.workflow.getHandle(workflowId, runId).fetchHistory();
    const identities = (history.events ?? []).flatMap(
      ({ workflowTaskStartedEventAttributes }) =>
        workflowTaskStartedEventAttributes?.identity ?? [],
    );
    const isBefore = identities.some((identity) => !NEW_IDENTITY.test(identity));
    kept.push({ workflowId, type, history, isBefore });
  }
  return kept;
}

async function replayErrors(bundle: string, kept: readonly Kept[]): Promise<readonly string[]> {
  const errors: string[] = [];
  const results = Worker.runReplayHistories(
    { workflowBundle: { codePath: bundle }, dataConverter: createConverters().worker },
    kept.map(({ workflowId, history }) => ({ workflowId, history })),
  );
  for await (const { workflowId, error } of results)
    if (error !== undefined) errors.push(`${workflowId}: ${error.message}`);
  return errors;
}

it("no task has failed on any run, every history replays, and the fleet's runs changed their rules once", async () => {
  const kept = await histories();
  const failures = kept.flatMap(({ workflowId, history }) =>
    (history.events ?? []).flatMap(({ workflowTaskFailedEventAttributes: failed }) =>
      failed ? [`${workflowId}: ${String(failed.cause)} ${failed.failure?.message ?? ""}`] : [],
    ),
  );
  // A signal that comes with the last command of a run fails that task, and the next one goes on.
  expect(failures.filter((text) => !text.includes("UnhandledCommand"))).toEqual([]);
  expect(await replayErrors(path.join(ROOT, "dist/workflow-bundle.js"), kept)).toEqual([]);
  const old = kept.filter(({ isBefore }) => isBefore);
  expect(old.filter(({ type }) => type === "fleet")).not.toEqual([]);
  const fleetsBefore = old.filter(({ type, history }) => type !== "fleet" || !hasUpgrade(history));
  expect(
    await replayErrors(path.join(two.oldRoot, "dist/workflow-bundle.js"), fleetsBefore),
  ).toEqual([]);
});

/** The run in which the commit was accepted; only this release reads that. */
const hasUpgrade = ({ events }: History): boolean =>
  events?.some(
    ({ workflowExecutionUpdateAcceptedEventAttributes: accepted }) =>
      accepted?.acceptedRequest?.input?.name === "upgrade",
  ) ?? false;
