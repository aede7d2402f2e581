/**
 * @file From the release before rules 2 to this one, with 40 jobs: workers, then agents, back, forward, the commit, and old workers after it.
 *
 * Nothing is lost: every job completes. Nothing starts twice: every rank notes its start in a file. Nothing is non-deterministic: no workflow
 * task fails, and every history replays on this release, and on the old one as far as it may take a run over. The steps build on each other.
 */

import { decodeArrayFromPayloads } from "@temporalio/common/lib/internal-non-workflow/index.js";
import type { History } from "@temporalio/common/lib/proto-utils.js";
import { DefaultLogger, Runtime } from "@temporalio/worker";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import type { JobFile } from "../../client/index.ts";
import { isUncharged } from "../../machines/gang/retry-verdict.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import { jobViewQuery } from "../../protocol/messages.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { NEWEST_RULES } from "../../scheduling/ledger/ledger.ts";
import { ROOT } from "../support/world.ts";
import { bundleOf, failedTasks, histories, replayErrors } from "./fleet-histories.ts";
import { play, type Outcomes, type Step } from "./plays.ts";
import { CLUSTERS, CONTROL, type Release, type TwoReleases } from "./two-releases.ts";

const JOBS = 40;
const PLAYS_WITHIN_MS = 2_700_000;

Runtime.install({ logger: new DefaultLogger("ERROR") });

/** By name, in their order. */
const STEPS = [
  "new workers, then new agents, go on by rules 1",
  "the old release takes over again before the commit",
  "forward again, an old worker beside the new ones prevents the commit, and then it is committed",
  "an old worker gets no task after the commit, and cannot take the routing back",
  "every job has completed, and every rank has started once",
  "no task has failed on any run, every history replays, and the fleet's runs changed their rules once",
] as const;

let outcomes: Outcomes;
beforeAll(async () => {
  outcomes = await play(upgrade);
}, PLAYS_WITHIN_MS);

it.each(STEPS)("%s", (name) => {
  expect([...outcomes.keys()]).toEqual(STEPS);
  const failed = outcomes.get(name);
  if (failed !== undefined) throw failed.error;
});

/** With the jobs of one play. */
function upgrade(two: TwoReleases): readonly Step[] {
  const jobs: { readonly id: string; readonly name: string; readonly ranks: number }[] = [];

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

  /** Whatever ran on with the former workers goes on with these. */
  async function replace(release: Release, roles: readonly string[]): Promise<void> {
    await two.stop(roles);
    await two.start(release, roles);
  }

  const runs: Record<(typeof STEPS)[number], Step["run"]> = {
    "new workers, then new agents, go on by rules 1": async () => {
      await two.start("old", [...CONTROL, ...CLUSTERS]);
      await submit("old", 12);
      await replace("new", CONTROL);
      await submit("new", 6);
      expect(await rulesOf(two)).toBe(1);
      const refused = await two.cli("fleet", "upgrade", "--json");
      expect(refused.code).toBe(1);
      expect(refused.said).toContain("OLDER_PROCESSES_ALIVE");
      for (const cluster of CLUSTERS) expect(refused.said).toContain(`${two.pidOf(cluster)}@`);
      await replace("new", CLUSTERS);
      await submit("new", 4);
      expect(await rulesOf(two)).toBe(1);
    },
    "the old release takes over again before the commit": async () => {
      await replace("old", CONTROL);
      await submit("old", 4);
      await replace("old", CLUSTERS);
      await submit("old", 4);
      expect(await rulesOf(two)).toBe(1);
    },
    "forward again, an old worker beside the new ones prevents the commit, and then it is committed":
      async () => {
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
        expect(await rulesOf(two)).toBe(NEWEST_RULES);
      },
    "an old worker gets no task after the commit, and cannot take the routing back": async () => {
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
      await expect(undeployAll(two.temporal)).rejects.toThrow(
        `rules ${NEWEST_RULES} are committed`,
      );
      await replace("new", CONTROL);
      expect(jobs).toHaveLength(JOBS);
    },
    /*
     * A run may end before a process of it starts: a fleet worker of the old release prints no tickets, so that hosts of this one refuse its lease; a gang
     * whose hosts are not ready together in time, or whose agent is told to end before it has started its part, asks again. Such a run is not charged to
     * the job, and the next one starts all ranks.
     */
    "every job has completed, and every rank has started once": async () => {
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
    },
    "no task has failed on any run, every history replays, and the fleet's runs changed their rules once":
      async () => {
        const kept = await histories(two);
        expect(failedTasks(kept)).toEqual([]);
        expect(await replayErrors(bundleOf(ROOT), kept)).toEqual([]);
        const old = kept.filter(({ isBefore }) => isBefore);
        expect(old.filter(({ type }) => type === "fleet")).not.toEqual([]);
        const fleetsBefore = old.filter(
          ({ type, history }) => type !== "fleet" || !hasUpgrade(history),
        );
        expect(await replayErrors(bundleOf(two.oldRoot), fleetsBefore)).toEqual([]);
      },
  };
  return STEPS.map((name) => ({ name, run: runs[name] }));
}

const ranksIn = (file: string): readonly string[] =>
  existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").sort() : [];

/** Those of the present run, from its input: a question to a fleet of rules 1 may break it. */
async function rulesOf({ temporal, fleet }: TwoReleases): Promise<number> {
  const { events } = await temporal.workflow.getHandle(fleetWorkflowId(fleet)).fetchHistory();
  const started = events?.[0]?.workflowExecutionStartedEventAttributes;
  const [input] = await decodeArrayFromPayloads(
    temporal.options.loadedDataConverter,
    started?.input?.payloads,
  );
  return (input as FleetInput).ledger.applyVersion; // the machines' own input
}

/** The run in which the commit was accepted; only this release reads that. */
const hasUpgrade = ({ events }: History): boolean =>
  events?.some(
    ({ workflowExecutionUpdateAcceptedEventAttributes: accepted }) =>
      accepted?.acceptedRequest?.input?.name === "upgrade",
  ) ?? false;
