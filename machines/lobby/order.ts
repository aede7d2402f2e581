/** @file Lists of rows in the order of calling: two as one, and where a row stands in a run that lies in the store. */

import { byCall, type LobbyKey } from "../../domain/lease/lobby-order.ts";
import type { Sample, StoredRun } from "../../protocol/lobby-contract.ts";

/** Two sorted lists as one; of equal rows those of the first list come first. */
export function mergeSorted<Row extends LobbyKey>(
  first: readonly Row[],
  second: readonly Row[],
): readonly Row[] {
  const [last, next] = [first.at(-1), second[0]];
  if (last === undefined) return second;
  if (next === undefined || byCall(last, next) <= 0) return [...first, ...second];
  const merged: Row[] = [];
  let at = 0;
  for (const row of first) {
    for (; at < second.length; at += 1) {
      const other = second[at];
      if (other === undefined || byCall(row, other) <= 0) break;
      merged.push(other);
    }
    merged.push(row);
  }
  return [...merged, ...second.slice(at)];
}

/** How many rows of a run come before the key, about: halfway between two samples. */
export function rankIn(
  { samples, count }: Pick<StoredRun, "samples" | "count">,
  key: LobbyKey,
): number {
  const next = samples.findIndex((sample) => bySample(key, sample) <= 0);
  const low = samples.at(next < 0 ? -1 : Math.max(0, next - 1))?.[3] ?? 0;
  const high = next < 0 ? count : (samples[next]?.[3] ?? 0);
  return Math.round((low + high) / 2);
}

const bySample = (
  { round, priority, submittedAtMs }: LobbyKey,
  [itsRound, itsPriority, itsMs]: Sample,
): number => round - itsRound || itsPriority - priority || submittedAtMs - itsMs;

/** Before every row that the first sample may stand for. */
export function lowestKey({ samples }: Pick<StoredRun, "samples">): LobbyKey | undefined {
  const [first] = samples;
  if (first === undefined) return undefined;
  const [round, priority, submittedAtMs] = first;
  return { round, priority, submittedAtMs };
}
