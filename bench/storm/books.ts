/**
 * @file The console's books beside the storm: what a console that has followed all of it says in a scrape and in its history database, beside every run of the
 * fleet's workflow, read once more as Temporal hands it out, and each job's own status.
 *
 * A run of which the server can hand out nothing any more leaves nothing to compare with.
 */

import type { Client } from "@temporalio/client";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startConsole } from "../../console/console.ts";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import { openHistory } from "../../console/history/database.ts";
import { usageBy } from "../../console/history/usage.ts";
import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { insist } from "./insistence.ts";
import type { Site } from "./site.ts";
import type { StormJob } from "./workload.ts";

export interface StormBooks {
  /** Once all is over: each difference is a line; undefined where a run cannot be read any more. */
  readonly differences: (jobs: readonly StormJob[]) => Promise<readonly string[] | undefined>;
  readonly close: () => Promise<void>;
}

type Counts = Readonly<Record<string, number>>;

interface Folded {
  readonly counts: Counts;
  /** Those that ever waited or held something inside the fleet. */
  readonly jobs: ReadonlySet<string>;
}

interface JobEnd {
  readonly job: string;
  readonly outcome: string;
}

const WITHIN_MS = 180_000;
const LOOK_MS = 2_000;
const READ_WITHIN_MS = 25_000;
const ALL = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
const OUTCOMES: Readonly<Record<string, string>> = {
  ...{ COMPLETED: "completed", FAILED: "failed", CANCELLED: "cancelled" },
  TERMINATED: "terminated",
};

export async function openBooks(
  { client, fleet, folder }: Site,
  say: (line: string) => void,
): Promise<StormBooks> {
  const file = join(folder, "history.db");
  const codecs = createConverters().worker.payloadCodecs ?? [];
  const astray: string[] = [];
  const { port, close } = await startConsole({
    ...{ client, fleet, codecs, host: "127.0.0.1", port: 0, rule: {}, files: new Map() },
    historyFile: file,
    say: (line) => {
      if (line.includes("cannot be followed exactly")) astray.push(line);
    },
  });
  return { differences, close };

  async function differences(jobs: readonly StormJob[]): Promise<readonly string[] | undefined> {
    const ends = await endsOf(client, jobs);
    // What happens to hosts goes on, so both are read anew until they agree.
    for (const untilMs = performance.now() + WITHIN_MS; ;) {
      const truth = await foldedRuns();
      if (truth === undefined) return undefined;
      const books = await booked(port, file);
      const known = ends.filter(({ job }) => truth.jobs.has(job));
      const counts = { ...truth.counts };
      for (const { job, outcome } of known) counts[`job ${job} ${outcome}`] = 1;
      const found = [...astray, ...compared(counts, books)];
      if (found.length > 0 && performance.now() < untilMs) {
        await sleep(LOOK_MS);
        continue;
      }
      const { grants = 0, cycles = 0, requests = 0 } = books;
      say(
        `the console's books: ${String(Object.keys(books).length)} facts, of ${String(requests)} requests, ${String(cycles)} cycles, ${String(grants)} grants; ${String(found.length)} differ`,
      );
      return found;
    }
  }

  async function foldedRuns(): Promise<Folded | undefined> {
    const workflowId = fleetWorkflowId(fleet);
    const counts: Record<string, number> = {};
    const leases = new Map<string, Lease>();
    const jobs = new Set<string>();
    const note = ({ leases: held, requests }: Ledger): void => {
      for (const lease of held.values()) leases.set(lease.id, lease);
      for (const { jobId } of [...held.values(), ...requests.values()]) jobs.add(jobId);
    };
    const runs: { readonly runId: string; readonly startTime: Date }[] = [];
    const query = `WorkflowId = "${workflowId}"`;
    for await (const run of client.workflow.list({ query })) runs.push(run);
    // The last word on a lease is the newest run's.
    runs.sort((one, other) => one.startTime.getTime() - other.startTime.getTime());
    for (const { runId } of runs) {
      const handle = client.workflow.getHandle(workflowId, runId);
      const history = await insist(client, () => handle.fetchHistory(), READ_WITHIN_MS).catch(
        () => undefined,
      );
      if (history === undefined) return undefined;
      const events = history.events ?? [];
      const run = await openFollowedRun(runId, events[0] ?? {}, codecs);
      note(run.ledger());
      for await (const { folded } of run.read(events))
        for (const { event, before, ledger } of folded) {
          note(ledger);
          add(counts, "requests", Math.max(0, ledger.nextArrival - before.nextArrival));
          if (event.kind !== "plan") continue;
          // The ledger's own word on the plan.
          const { granted, ledger: after } = apply(before, event);
          add(counts, "cycles", 1);
          add(counts, "grants", granted.length);
          for (const id of granted) {
            const lease = after.leases.get(id);
            add(counts, "granted GPUs", lease === undefined ? 0 : gpuCountOf(lease.gpus));
          }
        }
    }
    for (const { id, gpus } of leases.values()) counts[`lease ${id}`] = gpuCountOf(gpus);
    return { counts, jobs };
  }
}

/** How those of the storm ended, as the server says. */
async function endsOf(client: Client, jobs: readonly StormJob[]): Promise<readonly JobEnd[]> {
  const ends: JobEnd[] = [];
  for (const { id } of jobs) {
    const described = await insist(client, () => client.workflow.getHandle(id).describe());
    const outcome = OUTCOMES[described?.status.name ?? ""];
    if (outcome !== undefined) ends.push({ job: id, outcome });
  }
  return ends;
}

async function booked(port: number, file: string): Promise<Counts> {
  const text = await (await fetch(`http://127.0.0.1:${String(port)}/metrics`)).text();
  const counts: Record<string, number> = {
    requests: valueOf(text, "requests_total"),
    cycles: valueOf(text, "cycles_total"),
    grants: valueOf(text, "grants_total"),
    "granted GPUs": valueOf(text, "granted_gpus_total"),
  };
  const database = await openHistory(file, { isNew: false });
  try {
    type Row = Readonly<Record<"lease" | "job" | "outcome", string>> & {
      readonly gpus: number;
    };
    for (const { lease, gpus } of database.all<Row>("SELECT lease, gpus FROM leases", {}))
      counts[`lease ${lease}`] = gpus;
    const jobs = database.all<Row>("SELECT job, outcome FROM jobs", {});
    // One that was reset is one row, of its first run.
    for (const { job, outcome } of jobs) add(counts, `job ${job} ${outcome}`, 1);
    // The two halves of the books say the same.
    const hours = usageBy(database, ["class"], ALL).reduce(
      (sum, { useful, lost, idle }) => sum + useful + lost + idle,
      0,
    );
    const isEqual =
      Math.abs(valueOf(text, "lease_gpu_seconds_total") / 3_600 - hours) < 1e-6 &&
      valueOf(text, "jobs_finished_total") === jobs.length;
    if (!isEqual) counts["sums that differ from usage"] = 1;
  } finally {
    database.close();
  }
  return counts;
}

const add = (counts: Record<string, number>, name: string, more: number): void =>
  void (counts[name] = (counts[name] ?? 0) + more);

function valueOf(text: string, name: string): number {
  const lines = text
    .split("\n")
    .filter((line) => /^[a-z_]+/.exec(line)?.[0] === `orbweaver_${name}`);
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

/** A job that the fleet knew is in both, once; those of the storm's floods and probes are in the books alone. */
function compared(truth: Counts, books: Counts): readonly string[] {
  const wanted = new Set(Object.keys(truth));
  const known = new Set([...wanted].map(jobOf));
  for (const name of Object.keys(books))
    if (!name.startsWith("job ") || known.has(jobOf(name))) wanted.add(name);
  return [...wanted].flatMap((name) => {
    const [want = 0, got = 0] = [truth[name], books[name]];
    return want === got
      ? []
      : [`${name}: ${String(want)} in the histories, ${String(got)} in the books`];
  });
}

/** Of a fact about a job. */
const jobOf = (name: string): string => name.split(" ", 2).join(" ");
