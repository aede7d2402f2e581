/**
 * @file What the SDK does not hand to the handler of an update: its sender, how it was encrypted, and the bytes of its first argument, which a proof covers.
 *
 * `signal-intake.ts` notes them from the activation before the SDK sees it. An update may wait for its handler, so notes stay until they are read;
 * of too many the oldest go, and such an order counts as one without a value.
 */

import { currentUpdateInfo, type ActivateInput } from "@temporalio/workflow";
import { flawOf, type SealFlaw } from "../../protocol/seal.ts";
import { sideBytes } from "../../protocol/side-bytes.ts";

interface Note {
  readonly sender: string;
  readonly value: Uint8Array;
  readonly flaw?: SealFlaw;
  /** Of history, beside the value; absent where it is next to nothing. */
  readonly sideBytes?: number;
}

/** Nobody knows how it was encrypted, so it counts as if it was not: a flood must not wash the flaw of an order away. */
const FORGOTTEN: Note = { sender: "", value: new Uint8Array(), flaw: "open" };

/** As the handler of an update sees it. */
export interface ArrivedUpdate extends Note {
  readonly id: string;
  readonly bytes: number;
  readonly proof?: string;
}

type Job = NonNullable<ActivateInput["activation"]["jobs"]>[number];

/** Temporal has ten in flight. */
const MOST_NOTES = 100;
/** Of this run. */
const notes = new Map<string, Note>();

export function noteUpdates(jobs: readonly Job[]): void {
  for (const { doUpdate } of jobs) {
    const id = doUpdate?.id;
    if (typeof id !== "string") continue;
    const value = doUpdate?.input?.[0]?.data ?? new Uint8Array();
    const flaw = flawOf(doUpdate?.input);
    notes.set(id, {
      sender: doUpdate?.meta?.identity ?? "",
      value,
      ...sideBytes({
        payloads: doUpdate?.input,
        headers: doUpdate?.headers,
        names: [doUpdate?.meta?.identity, doUpdate?.name],
      }),
      ...(flaw !== undefined && { flaw }),
    });
    const [oldest] = notes.keys();
    if (notes.size > MOST_NOTES && oldest !== undefined) notes.delete(oldest);
  }
}

/** Called by the handler, before it waits for anything. `proof`: the update's second argument, whatever it is. */
export function arrivedOrder(proof: unknown): ArrivedUpdate {
  const id = currentUpdateInfo()?.id ?? "";
  const note: Note = notes.get(id) ?? FORGOTTEN;
  notes.delete(id);
  return {
    ...note,
    ...{ id, bytes: note.value.length },
    ...(typeof proof === "string" && { proof }),
  };
}
