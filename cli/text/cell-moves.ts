/** @file The fleet of a job that several fleets may run, and its moves, as text. */

import type { JobView } from "../../client/index.ts";
import { counted, durationText } from "../terminal/duration.ts";

/** `us, home eu (round 2 of eu, us)`. */
export function fleetText({ fleet, cells, spec }: JobView): string {
  if (cells === undefined) return fleet;
  const { home, round, ring } = cells;
  // Its file names no fleets, so it moves by order alone.
  if (spec?.cells === undefined) return `${fleet}, home ${home}`;
  return `${fleet}, home ${home} (round ${String(round)} of ${ring.join(", ")})`;
}

/** `to us, by ada 3s ago: it leaves eu`; undefined where the job is on no way. */
export const movingText = ({ moving, fleet }: JobView, nowMs: number): string | undefined =>
  moving &&
  `to ${moving.to}, by ${moving.by} ${durationText(nowMs - moving.atMs)} ago: it leaves ${fleet}`;

const MAX_SHOWN = 3;

/** The last moves, newest first; undefined when the job has not moved. */
export function movesText({ cells }: JobView, nowMs: number): string | undefined {
  if (cells === undefined || cells.moved === 0) return undefined;
  const lines = [...cells.moves]
    .reverse()
    .slice(0, MAX_SHOWN)
    .map(
      ({ from, to, atMs, code, reason }) =>
        `${from} → ${to} ${durationText(nowMs - atMs)} ago: ${code}, ${reason}`,
    );
  const older = cells.moved - lines.length;
  return [...lines, ...(older > 0 ? [`and ${counted(older, "move")} before`] : [])].join("\n");
}
