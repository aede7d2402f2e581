/** @file The orders that a host has refused, as its agent tells them with heartbeats: a row for each sender. */

import { isFields } from "../../lib/fields.ts";
import type { HostId } from "../values/ids.ts";
import { toldByHost } from "./told-by-host.ts";

export interface RefusedOrder {
  /** The id of the workflow that gave it, by the server's word; `OTHERS`: of all for whom there is no row any more. */
  readonly sender: string;
  readonly times: number;
  /** The last of them: its name and what it was about, and why it was refused. */
  readonly order: string;
  readonly why: string;
  readonly atMs: number;
}

type NewRefusal = Omit<RefusedOrder, "times"> & Partial<Pick<RefusedOrder, "times">>;

/** Rows of one host: each heartbeat carries them. */
export const MOST_REFUSED_SENDERS = 16;
export const OTHERS = "others";
const MOST_CHARACTERS = { sender: 120, order: 120, why: 240 } as const;

/** With one refusal more, or `times`, the newest last. For a new sender the one that was refused least lately goes on among the others. */
export function addRefusal(
  rows: readonly RefusedOrder[],
  { sender, order, why, atMs, times: more = 1 }: NewRefusal,
): readonly RefusedOrder[] {
  const named = cut(sender, MOST_CHARACTERS.sender);
  const times = (rows.find((row) => row.sender === named)?.times ?? 0) + more;
  const row: RefusedOrder = {
    ...{ sender: named, times, atMs },
    order: cut(order, MOST_CHARACTERS.order),
    why: cut(why, MOST_CHARACTERS.why),
  };
  const all = [...rows.filter((each) => each.sender !== named), row];
  const own = all.filter((each) => each.sender !== OTHERS);
  if (own.length < MOST_REFUSED_SENDERS) return all;
  const [oldest, ...kept] = own;
  if (oldest === undefined) return all;
  const others = all.find((each) => each.sender === OTHERS);
  return [{ ...oldest, sender: OTHERS, times: oldest.times + (others?.times ?? 0) }, ...kept];
}

const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, most - 1)}…`;

export const readRefusedOrders = (details: unknown): ReadonlyMap<HostId, readonly RefusedOrder[]> =>
  toldByHost(details, "refused", refusedRows);

/** A file of a former agent is untrusted data as a heartbeat is: what has another form is left out. */
export const refusedRows = (said: unknown): readonly RefusedOrder[] =>
  Array.isArray(said) ? said.slice(0, MOST_REFUSED_SENDERS).filter((row) => isRow(row)) : [];

const isRow = (said: unknown): said is RefusedOrder =>
  isFields(said) &&
  Object.entries(MOST_CHARACTERS).every(([name, most]) => {
    const text = said[name];
    return typeof text === "string" && text.length <= most;
  }) &&
  [said["times"], said["atMs"]].every((count) => Number.isSafeInteger(count) && Number(count) >= 0);
