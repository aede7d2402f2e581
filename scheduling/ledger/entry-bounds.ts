/**
 * @file The bounds of an inbox entry's numbers and texts, whatever the ledger holds: no such value can be true.
 *
 * Bounds are wide: an honest word that is refused may cost its job a long wait. Clocks differ by less than a day, no job is ten years old,
 * and what a job file may say is always within. Cost: O(size of the entry).
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { MAX_TRAINING_CHARS } from "../../domain/job/training-text.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { SiteLink } from "../../domain/fleet/site-link.ts";
import type { GangRequest, LeaseFact } from "../../domain/lease/lease.ts";

const DAY_MS = 86_400_000;
/** Clocks of one fleet differ by less. */
export const CLOCK_DIFFERENCE_MS = DAY_MS;
/** No job waits for longer, and no measurement is in force for longer. */
const LONGEST_MS = 3_660 * DAY_MS;
const MAX_GPUS = 1_000_000;
const MAX_SHAPES = 1_000;
const MAX_PRIORITY = 1_000_000;
const MAX_SEQ = 2 ** 40;
const MAX_TEXT = 1_000;
const MAX_GIB = 1_000_000;
const MOST_BYTES = 2 ** 40;
/** Of a link: GB/s, ms, probes. */
const MAX_MEASURED = 1e12;
const MAX_GENERATION = 2 ** 31;

/** Path and value of a field that is out of bounds, with what it may be. */
type Finding = string | undefined;

interface Bound {
  readonly path: string;
  readonly value: number | undefined;
  readonly least?: number;
  readonly most: number;
}

/** The first field that is out of bounds; undefined when none is. */
export function boundsProblem(entry: InboxEntry, nowMs: number): Finding {
  switch (entry.kind) {
    case "request":
      return requestProblem(entry.request, nowMs);
    case "end":
      return outside([{ path: "seq", value: entry.seq, most: MAX_SEQ }]);
    case "assert":
      return factProblem(entry.lease, nowMs);
    case "agent-registered":
      return (
        tooLong("agent.address", entry.agent.address) ??
        outside([
          { path: "terms.fenceMs", value: entry.terms?.fenceMs, most: LONGEST_MS },
          moment("toldAtMs", entry.toldAtMs, nowMs),
        ]) ??
        first(entry.running, ({ fact }) => fact && factProblem(fact, nowMs))
      );
    case "checkpointed":
      return first(entry.marks, ({ atMs }) => outside([moment("marks.atMs", atMs, nowMs)]));
    case "model":
      return outside([{ path: "generation", value: entry.generation, most: MAX_GENERATION }]);
    case "links":
      return first(entry.links, (link) => linkProblem(link, nowMs));
    case "silence":
    case "agent-deregistered":
      return outside([moment("toldAtMs", entry.toldAtMs, nowMs)]);
    case "vacated":
    case "lobby":
      return undefined;
  }
}

function requestProblem(request: GangRequest, nowMs: number): Finding {
  const { gang, constraints, preemption, checkpoint } = request;
  const most = LONGEST_MS;
  const { shapes = [] } = gang;
  return (
    tooLong("name", request.name) ??
    tooLong("antiAffinity", constraints.antiAffinity) ??
    tooLong("training", constraints.training, MAX_TRAINING_CHARS) ??
    outside([
      { path: "seq", value: request.seq, most: MAX_SEQ },
      { path: "priority", value: request.priority, least: -MAX_PRIORITY, most: MAX_PRIORITY },
      { path: "gang.gpus", value: gang.gpus, most: MAX_GPUS },
      { path: "gang.timeoutMs", value: gang.timeoutMs, most },
      { path: "gang.shapes.length", value: shapes.length, most: MAX_SHAPES },
      { path: "gang.shapes", value: Math.max(0, ...shapes.slice(0, MAX_SHAPES)), most: MAX_GPUS },
      { path: "constraints.gpuMemoryGiB", value: constraints.gpuMemoryGiB, most: MAX_GIB },
      { path: "constraints.maxClusters", value: constraints.maxClusters, most: MAX_GPUS },
      { path: "constraints.messages.bytes", value: constraints.messages?.bytes, most: MOST_BYTES },
      { path: "timeLimitMs", value: request.timeLimitMs, most },
      { path: "patienceMs", value: request.patienceMs, most },
      { path: "preemption.minRuntimeMs", value: preemption?.minRuntimeMs, most },
      { path: "checkpoint.graceMs", value: checkpoint?.graceMs, most },
      { path: "checkpoint.intervalMs", value: checkpoint?.intervalMs, most },
      { ...moment("submittedAtMs", request.submittedAtMs, nowMs), least: nowMs - LONGEST_MS },
      { ...moment("requestedAtMs", request.requestedAtMs, nowMs), least: nowMs - LONGEST_MS },
    ])
  );
}

const factProblem = (fact: LeaseFact, nowMs: number): Finding =>
  outside([
    { path: "lease.seq", value: fact.seq, most: MAX_SEQ },
    moment("lease.grantedAtMs", fact.grantedAtMs, nowMs),
    moment("lease.requestedAtMs", fact.requestedAtMs, nowMs),
  ]);

function linkProblem({ measured, ...link }: SiteLink, nowMs: number): Finding {
  return outside([
    moment("links.checkedAtMs", link.checkedAtMs, nowMs),
    moment("links.outageSinceMs", link.outageSinceMs, nowMs),
    { path: "links.validUntilMs", value: link.validUntilMs, most: nowMs + LONGEST_MS },
    moment("links.measured.atMs", measured?.atMs, nowMs),
    { path: "links.measured.bandwidthGbps", value: measured?.bandwidthGbps, most: MAX_MEASURED },
    { path: "links.measured.spreadGbps", value: measured?.spreadGbps, most: MAX_MEASURED },
    { path: "links.measured.roundTripMs", value: measured?.roundTripMs, most: MAX_MEASURED },
    { path: "links.measured.probes", value: measured?.probes, most: MAX_MEASURED },
  ]);
}

/** Not of the future. */
const moment = (path: string, value: number | undefined, nowMs: number): Bound => ({
  path,
  value,
  most: nowMs + CLOCK_DIFFERENCE_MS,
});

function outside(bounds: readonly Bound[]): Finding {
  const found = bounds.find(
    ({ value, least = -Infinity, most }) => value !== undefined && (value < least || value > most),
  );
  if (found === undefined) return undefined;
  const { path, value, least, most } = found;
  return `${path} is ${String(value)}, which is not ${least === undefined ? "" : `from ${least} `}up to ${most}`;
}

const tooLong = (path: string, text: string | undefined, most = MAX_TEXT): Finding =>
  (text?.length ?? 0) <= most ? undefined : `${path} has more than ${most} characters`;

function first<Item>(items: readonly Item[], problemOf: (item: Item) => Finding): Finding {
  for (const item of items) {
    const problem = problemOf(item);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
