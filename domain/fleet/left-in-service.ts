/**
 * @file Hosts that their agents would have set aside, and left in service since more are set aside already than may be, or their health file says so: what
 * an agent tells of them with its heartbeats, and how it is read from outside.
 */

import { toldByHost } from "../lease/told-by-host.ts";
import type { HostId } from "../values/ids.ts";

/** When, and by which evidence: `2030-05-04T06:00:00Z: the prologue of lease-12 failed: …`. */
export type LeftInService = Readonly<Record<HostId, string>>;

/** Characters of one host's evidence. */
const MOST_CHARACTERS = 300;

export const evidenceHead = (text: string): string => text.slice(0, MOST_CHARACTERS);

export const readLeftInService = (details: unknown): ReadonlyMap<HostId, string> =>
  toldByHost(details, "left", (why) => (typeof why === "string" ? evidenceHead(why) : undefined));
