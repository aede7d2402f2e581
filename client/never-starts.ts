/**
 * @file Refuses, before anything is queued, jobs that no end of other jobs would start on their fleet: those of which a what-if says "never" (`scheduling/explain/never.ts`).
 *
 * Two ledgers are asked. The one with which the fleet's present run began stands in its history, so no worker wakes, and one reading serves all that a client
 * submits for `KEPT_MS`. A job that it would start is queued; any other one is put to the present ledger, which the fleet is asked for, and only that one refuses.
 * So the usual submission costs one read of the server and one cycle on an idle fleet, nothing where an equal job was asked about before; and a fleet that is not
 * there, not read, or does not answer soon refuses nothing, nor do drained or silent hosts (docs/decisions/0167-jobs-that-never-start.md).
 */

import { setImmediate as othersTurn } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import type { PackedLedger } from "../domain/lease/packed-ledger.ts";
import { scheduledPart } from "../domain/lease/gang-request.ts";
import type { JobSpec } from "../domain/job/job.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { JobId } from "../domain/values/ids.ts";
import { firstOfEachKind } from "../scheduling/explain/remedies.ts";
import type { Never } from "../scheduling/explain/never.ts";
import { neverFor, withoutStandIn, wouldNeverStart } from "../scheduling/explain/what-if.ts";
import { unpackLedger } from "../scheduling/ledger/codec.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import { fleetInput } from "./first-input.ts";
import { ANSWER_WITHIN_MS, ledgerSoon } from "./fleet-fit.ts";
import { presentLedger } from "./present-ledger.ts";

/** A fleet that has changed meanwhile is asked anew before a refusal, and queues what it would not start; so this may be long. */
const KEPT_MS = 10_000;
/** Jobs that differ, asked about on one reading: at 6,000 GPUs a second or two of cycles. What comes after them is queued without a question. */
const MOST_ASKED = 64;
const MOST_CHANGES = 3;
/** Jobs that differ, refused with what would change it, which takes some dozens of cycles each; one is enough to refuse a list. */
const MOST_REFUSED = 8;

interface Reading {
  readonly atMs: number;
  readonly ledger: Promise<Ledger | undefined>;
  /** Whether a job would start, by what scheduling reads of it. */
  readonly known: Map<string, boolean>;
}

const READINGS = new WeakMap<Client, Map<string, Reading>>();

/** Throws NEVER_STARTS with the reason, its numbers and what would change it. A job that other fleets may run is left to them. */
export const checkStart = (client: Client, spec: JobSpec, fleet: string): Promise<void> =>
  checkStarts(client, [spec], fleet);

/** Throws NEVER_STARTS for those that would not start: all of them, or the first of many. Between two cycles others have their turn. */
export async function checkStarts(
  client: Client,
  specs: readonly JobSpec[],
  fleet: string,
): Promise<void> {
  const reading = readingOf(client, fleet);
  const began = await reading.ledger;
  if (began === undefined) return;
  const doubted: JobSpec[] = [];
  for (const spec of specs)
    if (spec.cells === undefined && !(await wouldStart(reading.known, began, spec)))
      doubted.push(spec);
  if (doubted.length === 0) return;
  const now = await ledgerSoon(client, fleet)
    .then(readLedger)
    // One that this release does not read.
    .catch(() => undefined);
  if (now === undefined) return;
  const judged = new Map<string, (Refused & { readonly others: string[] }) | undefined>();
  const refused: Refused[] = [];
  for (const spec of doubted) {
    const kind = kindOf(spec);
    judged.get(kind)?.others.push(spec.name);
    if (judged.has(kind) || refused.length >= MOST_REFUSED) continue;
    await othersTurn();
    const never = neverFor(now, spec, Date.now());
    const found = never && { name: spec.name, others: [], ...never };
    judged.set(kind, found);
    if (found !== undefined) refused.push(found);
  }
  if (refused.length === 0) return;
  throw refusal(refused, { fleet, isNot: "queued" });
}

/**
 * As `checkStart`, of a job that is there already and would be changed into `spec`, or go to that fleet: by its present ledger alone. Throws NO_CONNECTION where
 * the fleet does not answer. A job that goes to a fleet stays there, whatever its file says of others.
 */
export async function checkChange(
  client: Client,
  spec: JobSpec,
  { jobId, fleet, isNot }: { readonly jobId: JobId } & Refusing,
): Promise<void> {
  if (isNot === "changed" && spec.cells !== undefined) return;
  const now = unpackLedger(await presentLedger(client, fleet));
  const never = neverFor(now, spec, Date.now());
  if (never === undefined) return;
  throw refusal([{ name: jobId, others: [], ...never }], { fleet, isNot });
}

interface Refusing {
  readonly fleet: string;
  /** What a job that is refused is not. */
  readonly isNot: "queued" | "changed" | "moved";
}

interface Refused extends Never {
  readonly name: string;
  /** Jobs that ask for the same. */
  readonly others: readonly string[];
}

function refusal(refused: readonly Refused[], { fleet, isNot }: Refusing): OrbweaverError {
  const lines = refused.map(({ name, others, reason, changes }) => {
    const help = firstOfEachKind(changes, MOST_CHANGES).map(({ text }) => text);
    const remedy = help.length === 0 ? "" : `\nwould change it: ${help.join("; or ")}`;
    const who = others.length === 0 ? name : `${name} and ${String(others.length)} more like it`;
    return `${who} would never start on fleet ${fleet}, not even if nothing else ran there: ${reason.code}\n${withoutStandIn(reason.message)}${remedy}`;
  });
  const jobs = refused.flatMap(({ name, others, reason, changes }) =>
    [name, ...others].map((each) => ({
      name: each,
      reason: { ...reason, message: withoutStandIn(reason.message) },
      changes,
    })),
  );
  return new OrbweaverError(
    "NEVER_STARTS",
    `${lines.join("\n")}\nIt was not ${isNot}. Change the job, or have it wait for a fleet that is to change: --queue-anyway.`,
    { details: { jobs } },
  );
}

function readingOf(client: Client, fleet: string): Reading {
  const readings = READINGS.get(client) ?? new Map<string, Reading>();
  READINGS.set(client, readings);
  const former = readings.get(fleet);
  const atMs = Date.now();
  if (former !== undefined && atMs - former.atMs < KEPT_MS) return former;
  const reading = { atMs, ledger: carriedLedger(client, fleet), known: new Map<string, boolean>() };
  readings.set(fleet, reading);
  return reading;
}

/** Undefined for a fleet that is not there, or cannot be read. */
const carriedLedger = async (client: Client, fleet: string): Promise<Ledger | undefined> => {
  try {
    const input = await client.withDeadline(Date.now() + ANSWER_WITHIN_MS, () =>
      fleetInput(client, fleet),
    );
    const isInput = typeof input === "object" && input !== null && "ledger" in input;
    return isInput ? readLedger(input.ledger as PackedLedger) : undefined;
  } catch {
    return undefined;
  }
};

/** Undefined, too, for a fleet without a host, which knows nothing of what it will have. */
function readLedger(packed: PackedLedger | undefined): Ledger | undefined {
  if (packed === undefined) return undefined;
  const ledger = unpackLedger(packed);
  return ledger.shape.clusters.some(({ hosts }) => hosts.length > 0) ? ledger : undefined;
}

async function wouldStart(
  known: Map<string, boolean>,
  ledger: Ledger,
  spec: JobSpec,
): Promise<boolean> {
  const key = kindOf(spec);
  const found = known.get(key);
  if (found !== undefined) return found;
  if (known.size >= MOST_ASKED) return true;
  await othersTurn();
  const starts = !wouldNeverStart(ledger, spec, Date.now());
  known.set(key, starts);
  return starts;
}

/** What scheduling reads of a job, but its name. */
function kindOf(spec: JobSpec): string {
  const { name: _name, ...asks } = scheduledPart(spec);
  return JSON.stringify(asks);
}
