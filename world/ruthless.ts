/**
 * @file What ruthless worlds have besides: workflows of jobs that are reset to later tasks, and hosts that cannot obey an order to stop while a job is to run
 * elsewhere.
 *
 * Each concern draws from a stream of its own.
 */

import type { Random } from "../lib/random.ts";
import { CALM_AT_MS, type Fault, type Settings } from "./settings.ts";

export function madeRuthless(settings: Settings, random: Random): Settings {
  const more = [
    ...drawResets(random.stream("resets")),
    ...drawLeads(random.stream("leads")),
    ...drawCalled(random.stream("called")),
  ];
  return { ...settings, faults: [...settings.faults, ...more].sort((a, b) => a.atMs - b.atMs) };
}

const LAST_AT_MS = CALM_AT_MS - 50_000;

/** A share of nothing is a reset to the beginning. */
const drawResets = ({ below, unit }: Random): readonly Fault[] =>
  Array.from({ length: below(5) }, (): Fault => {
    const share = below(4) === 0 ? 0 : unit();
    const isMostTold = below(2) === 0;
    const atMs = 10_000 + below(LAST_AT_MS);
    return { kind: "reset-later", atMs, target: below(1_000), forMs: 0, share, isMostTold };
  });

/** For longer than a job's orders to stop are tried. */
const drawLeads = ({ below }: Random): readonly Fault[] =>
  Array.from({ length: below(3) }, (): Fault => {
    const thenMs = 20_000 + below(100_000);
    const forMs = thenMs + 60_000;
    return {
      kind: "lead-full",
      atMs: 10_000 + below(LAST_AT_MS),
      target: below(1_000),
      forMs,
      thenMs,
    };
  });

/** Few seeds have such a job for long, so it is waited for. */
const drawCalled = ({ below }: Random): readonly Fault[] =>
  Array.from({ length: below(2) }, (): Fault => {
    const atMs = 10_000 + below(LAST_AT_MS);
    return { kind: "reset-called", atMs, target: 0, forMs: CALM_AT_MS - atMs };
  });
