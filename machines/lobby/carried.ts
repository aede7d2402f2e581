/**
 * @file Reads what a lobby's run is handed, row by row: anybody who reaches the frontend begins a lobby, or continues as one, with anything.
 *
 * What is no row, credit or run is left out; who may have been meant by it is asked, as after a loss of the store. What a run of ours has handed on is read as it is. Cost: O(rows).
 */

import { JOB_CLASSES } from "../../domain/job/job.ts";
import type { LobbyCredit, LobbyRow, WaitingByClass } from "../../domain/lease/lobby.ts";
import { isFields } from "../../lib/fields.ts";
import {
  unpackRow,
  type Leaver,
  type OpenRun,
  type PackedRow,
  type Sample,
} from "../../protocol/lobby-contract.ts";
import type { Called } from "./lobby-state.ts";
import { queueOf, type Queue } from "./queue.ts";
import { isClass, isCount, isCredit, isId, isRow } from "./words.ts";

export interface ReadCarried {
  readonly queues: readonly Queue[];
  readonly credits: readonly LobbyCredit[];
  readonly called: readonly Called[];
  readonly returned: readonly number[];
  readonly reported?: { readonly waiting: WaitingByClass };
  readonly reports: number;
  readonly unused: readonly string[];
  readonly nextId: number;
  /** Something was left out. */
  readonly isTorn: boolean;
}

export function readCarried(value: unknown): ReadCarried {
  const fields = isFields(value) ? value : {};
  let isTorn = value !== undefined && !isFields(value);
  const torn = <Value>(instead: Value): Value => {
    isTorn = true;
    return instead;
  };
  const listOf = <Item>(of: unknown, read: (item: unknown) => Item | undefined): Item[] => {
    if (of === undefined && value === undefined) return [];
    if (!Array.isArray(of)) return torn([]);
    const items = of.map(read).filter((item) => item !== undefined);
    return items.length === of.length ? items : torn(items);
  };
  const countOf = (of: unknown, instead: number): number => {
    if (of === undefined && value === undefined) return instead;
    return isCount(of) ? of : torn(instead);
  };

  const queues = listOf(fields["queues"], (queue) => {
    if (!isFields(queue) || !isClass(queue["class"])) return undefined;
    return queueOf({
      class: queue["class"],
      rows: listOf(queue["rows"], asPackedRow),
      runs: listOf(queue["runs"], asRun),
      leavers: listOf(queue["leavers"], asLeaver),
      storedLeavers: listOf(queue["storedLeavers"], asText),
      storedLeaverCount: countOf(queue["storedLeaverCount"], 0),
    });
  });
  const { reported } = fields;
  const waiting = isFields(reported) ? asWaiting(reported["waiting"]) : undefined;
  const read = {
    queues,
    credits: listOf(fields["credits"], (credit) => (isCredit(credit) ? credit : undefined)),
    called: listOf(fields["called"], asCalled),
    returned: listOf(fields["returned"], (number) => (isCount(number) ? number : undefined)),
    // Without it the fleet is told anew.
    ...(waiting !== undefined && { reported: { waiting } }),
    reports: countOf(fields["reports"], 0),
    unused: listOf(fields["unused"], asText),
    nextId: countOf(fields["nextId"], 1),
  };
  return { ...read, isTorn };
}

export const readFormer = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.map(asText).filter((run) => run !== undefined) : [];

const asText = (value: unknown): string | undefined =>
  typeof value === "string" ? value : undefined;

function asRow(value: unknown): LobbyRow | undefined {
  if (!Array.isArray(value)) return undefined;
  const row = unpackRow(value as unknown as PackedRow); // looked at as a whole
  return isRow(row) ? row : undefined;
}

const asPackedRow = (value: unknown): PackedRow | undefined =>
  asRow(value) === undefined ? undefined : (value as PackedRow);

function asLeaver(value: unknown): Leaver | undefined {
  if (!Array.isArray(value)) return undefined;
  const [jobId, runId, seq] = value as readonly unknown[];
  return isId(jobId) && isId(runId) && isCount(seq) ? (value as unknown as Leaver) : undefined;
}

function asCalled(value: unknown): Called | undefined {
  if (!Array.isArray(value)) return undefined;
  const [credit, packed, atMs, isOvertaken] = value as readonly unknown[];
  const row = asRow(packed);
  if (!isCredit(credit) || row === undefined || !isNumber(atMs)) return undefined;
  return { credit, row, atMs, ...(isOvertaken === true && { isOvertaken }) };
}

function asRun(value: unknown): OpenRun | undefined {
  if (!isFields(value)) return undefined;
  const { directory, count, at, samples, bound } = value;
  const isWhole =
    typeof directory === "string" &&
    isCount(count) &&
    isCount(at) &&
    at < count &&
    Array.isArray(samples) &&
    samples.length > 0 &&
    samples.every(isSample) &&
    isFields(bound) &&
    [bound["round"], bound["priority"], bound["submittedAtMs"]].every(isNumber) &&
    (bound["jobId"] === undefined || typeof bound["jobId"] === "string");
  return isWhole ? (value as unknown as OpenRun) : undefined; // each of its fields was looked at
}

const isSample = (value: unknown): value is Sample =>
  Array.isArray(value) && value.length === 4 && value.every(isNumber);

function asWaiting(value: unknown): WaitingByClass | undefined {
  if (!isFields(value) || !JOB_CLASSES.every((name) => isCount(value[name]))) return undefined;
  return value as unknown as WaitingByClass; // each class was looked at
}

const isNumber = (value: unknown): value is number => Number.isFinite(value);
