/**
 * @file The histories of a fleet's runs as Temporal hands them out, each folded once from its first event to its last, without the console: what it shows
 * live and of the past is compared with this.
 *
 * Each run begins with the ledger that the fleet's own workflow carried into it, and is to end with the one that the next run carries.
 */

import type { Client } from "@temporalio/client";
import { createHash } from "node:crypto";
import type { PayloadCodec } from "@temporalio/common";
import { openFollowedRun, type FollowedRun } from "../../console/follow/followed-run.ts";
import type { Folded } from "../../console/follow/fleet-run.ts";
import { msOf } from "../../console/follow/workflow-task.ts";
import { hostRows } from "../../console/view/rows.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

export interface FoldedHistories {
  readonly runs: number;
  /** Of the first run's begin and of the last event, in milliseconds since 1970. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Runs that ended with another ledger than the next one carried. */
  readonly unequalEnds: number;
  /** The ledger after the last event at or before the instant. */
  readonly ledgerAt: (ms: number) => Ledger;
  /** The workflow tasks that changed something of what browsers are shown. */
  readonly shown: readonly ShownTask[];
}

export interface ShownTask {
  readonly startedAtMs: number;
  /** From then on what it did is in the history. */
  readonly writtenAtMs: number;
  /** Leases that came, went or changed. */
  readonly leases: number;
}

interface Step {
  readonly atMs: number;
  readonly ledger: Ledger;
}

export async function foldHistories(
  client: Client,
  fleet: string,
  codecs: readonly PayloadCodec[],
): Promise<FoldedHistories> {
  const steps: Step[] = [];
  const shown: ShownTask[] = [];
  const runs: FollowedRun[] = [];
  let unequalEnds = 0;
  for (const { runId, events } of await historiesOf(client, fleet)) {
    const run = await openFollowedRun(runId, events[0] ?? {}, codecs);
    const former = runs.at(-1);
    if (former !== undefined && JSON.stringify(former.next()?.ledger) !== run.carried)
      unequalEnds += 1;
    runs.push(run);
    steps.push({ atMs: run.startedAtMs, ledger: run.ledger() });
    for await (const { task, folded } of run.read(events)) {
      if (folded.some(({ before, ledger }) => isShown(before, ledger)))
        shown.push({
          startedAtMs: task.startedAtMs,
          writtenAtMs: msOf(events[task.lastEvent - 1]?.eventTime),
          leases: folded.reduce((sum, one) => sum + changedLeases(one), 0),
        });
      for (const { event, ledger } of folded) steps.push({ atMs: event.nowMs, ledger });
    }
  }
  const [first] = steps;
  const last = steps.at(-1);
  if (first === undefined || last === undefined) throw new Error(`fleet ${fleet} has no history`);
  return {
    ...{ runs: runs.length, fromMs: first.atMs, toMs: last.atMs, unequalEnds, shown },
    ledgerAt: (ms) => (steps.filter(({ atMs }) => atMs <= ms).at(-1) ?? first).ledger,
  };
}

type Events = NonNullable<
  Awaited<ReturnType<ReturnType<Client["workflow"]["getHandle"]>["fetchHistory"]>>["events"]
>;

/** The oldest run first. */
async function historiesOf(
  { workflow }: Client,
  fleet: string,
): Promise<readonly { readonly runId: string; readonly events: Events }[]> {
  const workflowId = fleetWorkflowId(fleet);
  const histories: { readonly runId: string; readonly events: Events }[] = [];
  let runId: string | undefined = (await workflow.getHandle(workflowId).describe()).runId;
  while (runId) {
    const { events } = await workflow.getHandle(workflowId, runId).fetchHistory();
    histories.unshift({ runId, events: events ?? [] });
    runId =
      events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? undefined;
  }
  return histories;
}

function isShown(
  before: Ledger,
  { leases, requests, reservations, shape, hosts }: Ledger,
): boolean {
  return (
    before.leases !== leases ||
    before.requests !== requests ||
    before.reservations !== reservations ||
    (before.hosts !== hosts &&
      textOf(hostRows(before.shape, before.hosts)) !== textOf(hostRows(shape, hosts)))
  );
}

const changedLeases = ({ before, ledger }: Pick<Folded, "before" | "ledger">): number =>
  [...before.leases].filter(([id, lease]) => ledger.leases.get(id) !== lease).length +
  [...ledger.leases.keys()].filter((id) => !before.leases.has(id)).length;

const textOf = (rows: ReadonlyMap<string, unknown>): string => JSON.stringify([...rows]);

export const ledgerHash = (ledger: Ledger): string => hashOf(packLedger(ledger));

/** Of the value as JSON, whatever the order of its keys. */
export const hashOf = (value: unknown): string =>
  createHash("sha256")
    .update(JSON.stringify(value, (_key, one: unknown) => (isRecord(one) ? sorted(one) : one)))
    .digest("hex");

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const sorted = (record: Readonly<Record<string, unknown>>): object =>
  Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
