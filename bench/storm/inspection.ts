/**
 * @file What is true after a storm: how every job ended, what the ledger still holds, what the hosts' folders and the process
 * table say, and what the witness saw. Every finding is one line for a person; no finding is the aim.
 */

import { WorkflowFailedError } from "@temporalio/client";
import { ApplicationFailure } from "@temporalio/common";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { launchFiles } from "../../agent/folder/launch-files.ts";
import { phaseOf } from "../../agent/runs/local-run.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { hostLayout } from "../../agent/system/state-layout.ts";
import { openTokenStore } from "../../agent/folder/token-store.ts";
import { NEWEST_RULES } from "../../scheduling/ledger/ledger.ts";
import type { JobFailureDetails } from "../../protocol/messages.ts";
import { leftProcesses } from "../live/left-processes.ts";
import { insist } from "./insistence.ts";
import type { WitnessLine } from "./rank.ts";
import { GPUS_PER_HOST, type Site } from "./site.ts";
import { FAILING_EXIT_CODE, witnessFile, type StormJob } from "./workload.ts";

export interface Findings {
  /** Jobs that did not end as they should. */
  readonly lost: readonly string[];
  /** Processes of one rank of one job that lived at the same time, or one rank of one lease that started twice. */
  readonly startedTwice: readonly string[];
  readonly leaked: readonly string[];
  /** GPUs whose owner met another owner. */
  readonly doubleLeased: readonly string[];
  /** Where ledger, hosts and processes do not say the same. */
  readonly disagreements: readonly string[];
}

export async function inspect(
  site: Site,
  { jobs, isUpgraded }: { readonly jobs: readonly StormJob[]; readonly isUpgraded: boolean },
): Promise<Findings> {
  const lines = readWitness(site);
  const ends = await Promise.all(jobs.map((job) => endOf(site, job)));
  const lost = jobs.flatMap((job, index) => {
    const end = ends[index] ?? { kind: "open" };
    const wrong = wrongEnd(job, end) ?? wrongRuns(job, end, lines);
    return wrong === undefined ? [] : [`${job.id}: ${wrong}`];
  });
  const ledger = await insist(site.client, () => site.orbweaver.fleet());
  if (ledger === undefined) {
    return { lost, ...witnessed(lines), leaked: [], disagreements: ["the fleet does not exist"] };
  }
  const leaked = [
    ...[...ledger.leases.values()].map(
      (lease) => `${lease.id} of ${lease.jobId} is ${lease.state}: ${JSON.stringify(lease)}`,
    ),
    ...[...ledger.requests.keys()].map((job) => `a request of ${job} waits`),
  ];
  const { applyVersion: rules } = ledger;
  const disagreements = [
    ...(isUpgraded && rules !== NEWEST_RULES ? [`the fleet follows rules ${rules} still`] : []),
    ...hostFindings(site, ledger.nextToken),
    ...leftProcesses(site.stateDir).map(
      ({ pid, launch }) => `process ${pid} still runs: ${launch}`,
    ),
  ];
  return { lost, ...witnessed(lines), leaked, disagreements };
}

export const readWitness = (site: Site): readonly WitnessLine[] =>
  existsSync(witnessFile(site))
    ? readFileSync(witnessFile(site), "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as WitnessLine)
    : [];

type End =
  | { readonly kind: "open" }
  | { readonly kind: "completed" | "cancelled" | "terminated" }
  | { readonly kind: "failed"; readonly code: string; readonly exitCode?: number | undefined }
  | { readonly kind: "other"; readonly what: string };

async function endOf({ client }: Site, { id }: StormJob): Promise<End> {
  const handle = client.workflow.getHandle(id);
  const status = (await insist(client, () => handle.describe()))?.status.name;
  switch (status) {
    case undefined:
      return { kind: "other", what: "no ledger or agent knows it" };
    case "RUNNING":
      return { kind: "open" };
    case "COMPLETED":
      return { kind: "completed" };
    case "CANCELLED":
      return { kind: "cancelled" };
    case "TERMINATED":
      return { kind: "terminated" };
    case "FAILED": {
      const failure: unknown = await handle.result().catch((error: unknown) => error);
      const cause = failure instanceof WorkflowFailedError ? failure.cause : failure;
      if (!(cause instanceof ApplicationFailure)) return { kind: "other", what: String(cause) };
      const details = cause.details?.[0] as JobFailureDetails | undefined;
      return {
        kind: "failed",
        code: `${String(cause.type)}: ${cause.message}`,
        exitCode: details?.exitCode,
      };
    }
    default:
      return { kind: "other", what: status };
  }
}

function wrongEnd({ naturalEnd, meddling }: StormJob, end: End): string | undefined {
  const isNatural =
    naturalEnd === "completed"
      ? end.kind === "completed"
      : end.kind === "failed" && end.exitCode === FAILING_EXIT_CODE;
  const wanted = meddling?.how === "reset" || meddling === undefined ? naturalEnd : meddling.how;
  if (end.kind === wanted && (isNatural || wanted !== naturalEnd)) return undefined;
  // A cancellation may come too late; a termination that the server has confirmed may not.
  const mayBeNatural = meddling?.how !== "terminated" || !meddling.isCertain;
  if (isNatural && mayBeNatural) return undefined;
  const found = end.kind === "failed" ? end.code : end.kind === "other" ? end.what : end.kind;
  const how = meddling === undefined ? "" : ` (it was ${meddling.how})`;
  return `should have ${wanted}${how}, and is ${found}`;
}

/** A process may start late by so much after the word that was against it. */
const LATE_MS = 5_000;

/** What the runs of a job say against its end: a completed gang was whole, a cancelled job starts nothing any more. */
function wrongRuns(
  { id, file, meddling }: StormJob,
  end: End,
  lines: readonly WitnessLine[],
): string | undefined {
  const own = lines.filter(({ job }) => job === id);
  if (end.kind === "completed") {
    const tasks = [...new Set(own.map(({ task }) => task))];
    if (file.array !== undefined && tasks.length !== file.array.count) {
      return `it completed, and ${tasks.length} of its ${file.array.count} tasks were seen`;
    }
    // A task of an array is a gang of its own; what is no array has one, of no number.
    const isWhole = tasks.length > 0 && tasks.every((task) => hasWholeGang(own, task));
    if (!isWhole) return "it completed, and no gang of it ran to its end with every rank";
  }
  if (meddling?.isCertain === true && meddling.how === "cancelled") {
    const late = own.find(({ kind, atMs }) => kind === "start" && atMs > meddling.atMs + LATE_MS);
    if (late !== undefined) {
      return `rank ${late.rank} started under ${late.lease} ${late.atMs - meddling.atMs} ms after it was cancelled`;
    }
  }
  return undefined;
}

/** Under one lease, every rank came to its end. */
function hasWholeGang(lines: readonly WitnessLine[], task: number | undefined): boolean {
  const ends = lines.filter((line) => line.kind === "end" && line.task === task);
  return ends.some(({ lease, worldSize }) => {
    const ranks = ends.filter((line) => line.lease === lease).map(({ rank }) => rank);
    return new Set(ranks).size === worldSize;
  });
}

function witnessed(lines: readonly WitnessLine[]): Pick<Findings, "startedTwice" | "doubleLeased"> {
  const say = ({ job, lease, host, gpu, rank, met }: WitnessLine): string =>
    `${lease} of ${job}, rank ${rank} on ${host} GPU ${gpu}, met ${met ?? "itself"}`;
  const starts = new Map<string, WitnessLine[]>();
  // A task may run again on its lease when its end is unknown, but never twice at once.
  for (const line of lines.filter(({ kind, task }) => kind === "start" && task === undefined)) {
    const key = `${line.lease} ${line.rank}`;
    starts.set(key, [...(starts.get(key) ?? []), line]);
  }
  const again = [...starts.values()].flatMap(([first, ...others]) =>
    others.length > 0 && first !== undefined ? [`${say(first)} (${others.length + 1} starts)`] : [],
  );
  return {
    startedTwice: [...lines.filter(({ kind }) => kind === "rank-taken").map(say), ...again],
    doubleLeased: lines.filter(({ kind }) => kind === "gpu-taken").map(say),
  };
}

function hostFindings({ stateDir, fleet, hosts }: Site, nextToken: number): readonly string[] {
  return hosts.flatMap((host) => {
    const layout = hostLayout(nodeSystem.files, { stateDir, fleet, id: host });
    const running = readdirSync(layout.leases).flatMap((name) => {
      const { kind } = phaseOf({
        files: launchFiles(join(layout.leases, name)),
        system: nodeSystem,
      });
      return kind === "running" || kind === "starting" ? [`${name} is ${kind} on ${host}`] : [];
    });
    const highest = openTokenStore(nodeSystem.files, layout.tokens, GPUS_PER_HOST).highest();
    return highest < nextToken
      ? running
      : [...running, `${host} has seen token ${highest}, and the fleet's next is ${nextToken}`];
  });
}
