/**
 * @file Which values of the store something may still refer to: mark and sweep. Reads histories and files alone, and wakes no worker.
 *
 * Roots are all SHA-256 sums that stand anywhere in the history of the present run of the fleet's workflow and of each of its lobbies, and in the first event,
 * which has the ledger, of each former run of the fleet that Temporal keeps. From there on, every sum in the text of a value marks that value. Too much is
 * marked by this and never too little. Fails where a payload cannot be read.
 */

import type { Client } from "@temporalio/client";
import type { Payload, PayloadCodec } from "@temporalio/common";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isGone, pagesOf } from "../../console/follow/history-pages.ts";
import { decoded, type HistoryEvent } from "../../console/follow/workflow-task.ts";
import { hashIn } from "../../activities/store.ts";
import { ENCODING_KEY, metadataText } from "../../workers/codec/payload-bytes.ts";
import { fleetWorkflowId, LOBBY_WORKFLOW } from "../../protocol/messages.ts";
import { describe } from "./job-ends.ts";
import { namesIn } from "./measure.ts";

export interface StoreReaders {
  readonly client: Client;
  readonly codecs: readonly PayloadCodec[];
  readonly signal: AbortSignal;
}

interface Execution {
  readonly workflowId: string;
  readonly runId: string;
}

const SUM = /[0-9a-f]{64}/g;
/** Of payloads whose bytes are the text of their value. */
const PLAIN = /^(json|binary)\/(plain|null|protobuf)$/;
const sumsIn = (text: string): readonly string[] => text.match(SUM) ?? [];

/** The sums that histories name. */
export async function rootsOf(readers: StoreReaders, fleet: string): Promise<ReadonlySet<string>> {
  const roots = new Set<string>();
  const { client } = readers;
  const workflowId = fleetWorkflowId(fleet);
  const present = await describe(client, workflowId);
  if (present === undefined) throw new Error(`${workflowId} is gone`);
  let former = await markRun(readers, { workflowId, runId: present.runId }, { roots });
  while (former !== undefined)
    former = await markRun(readers, { workflowId, runId: former }, { roots, isFirstAlone: true });
  for (const lobby of await lobbiesOf(client, fleet)) {
    // What the list says may be old.
    const found = await describe(client, lobby);
    if (found !== undefined)
      await markRun(readers, { workflowId: lobby, runId: found.runId }, { roots });
  }
  return roots;
}

/** Closed ones too, because the list comes late: the next run may be open by now. */
async function lobbiesOf(client: Client, fleet: string): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for await (const { workflowId, memo } of client.workflow.list({
    query: `WorkflowType = "${LOBBY_WORKFLOW}"`,
  }))
    if (memo?.["fleet"] === fleet) found.add(workflowId);
  return found;
}

/** Returns the run before this one; undefined where there is none. */
async function markRun(
  readers: StoreReaders,
  execution: Execution,
  { roots, isFirstAlone = false }: { readonly roots: Set<string>; readonly isFirstAlone?: boolean },
): Promise<string | undefined> {
  const { client, codecs, signal } = readers;
  let before: string | undefined;
  try {
    for await (const events of pagesOf({ client, signal, execution, isFollowed: false })) {
      for (const event of events) {
        const started = event.workflowExecutionStartedEventAttributes;
        if (started) before = started.continuedExecutionRunId || undefined;
        for (const sum of await sumsOf(event, codecs)) roots.add(sum);
        if (isFirstAlone) return before;
      }
    }
  } catch (error) {
    // Temporal drops former runs, perhaps just now.
    if (!isFirstAlone || !isGone(error)) throw error;
  }
  return before;
}

async function sumsOf(
  event: HistoryEvent,
  codecs: readonly PayloadCodec[],
): Promise<readonly string[]> {
  const sums: string[] = [];
  for (const payload of payloadsIn(event)) {
    const plain = (await decoded(payload, codecs)) ?? {};
    const encoding = metadataText(plain, ENCODING_KEY);
    // A codec that is absent, or damage that workers pass on: it may name anything.
    if (encoding !== undefined && !PLAIN.test(encoding))
      throw new Error(`a payload of encoding ${encoding} is there`);
    sums.push(...sumsIn(Buffer.from(plain.data ?? new Uint8Array()).toString("latin1")));
  }
  return sums;
}

/** Payloads anywhere in an event, and not what is in them. */
function payloadsIn(value: unknown): readonly Payload[] {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return [];
  if ("data" in value && ArrayBuffer.isView(value.data)) return [value as Payload];
  return Object.values(value).flatMap(payloadsIn);
}

/** With what the marked values name themselves. A value that cannot be read names nothing, as for its users. */
export function marked(
  folders: readonly string[],
  roots: ReadonlySet<string>,
): ReadonlySet<string> {
  const there = new Map(
    folders.flatMap((folder) =>
      namesIn(folder).flatMap((name) => {
        const sum = hashIn(name);
        return sum === undefined ? [] : [[sum, join(folder, name)] as const];
      }),
    ),
  );
  const marks = new Set<string>();
  const open = [...roots];
  for (let sum = open.pop(); sum !== undefined; sum = open.pop()) {
    const file = there.get(sum);
    if (file === undefined || marks.has(sum)) continue;
    marks.add(sum);
    open.push(...sumsIn(readFileSync(file, "latin1")));
  }
  return marks;
}
