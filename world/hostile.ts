/**
 * @file What hostile worlds have besides: disks that are full, read-only, slow or torn, clocks of hosts that jump and drift, words that come again or cannot
 * be true, workflows that are reset, and people who kill jobs and change more of them.
 *
 * Each concern draws from a stream of its own, and each seed draws how much there is of it.
 */

import type { Random } from "../lib/random.ts";
import { CALM_AT_MS, type Fault, type Order, type Settings } from "./settings.ts";

type Common = Pick<Fault, "atMs" | "target" | "forMs">;

/** Of the time since a boot, for a clock that nobody keeps: far more than hardware has. */
const MOST_DRIFT = 0.01;
const MOST_JUMP_MS = 7_200_000;

export function madeHostile(settings: Settings, random: Random): Settings {
  const { faults, orders } = settings;
  const more = [
    ...drawDisks(random.stream("disks")),
    ...drawTorn(random.stream("torn")),
    ...drawClocks(random.stream("clocks")),
    ...drawWords(random.stream("words")),
    ...drawResets(random.stream("resets")),
    ...drawLeads(random.stream("leads")),
  ];
  return {
    ...settings,
    faults: [...faults, ...more].sort((a, b) => a.atMs - b.atMs),
    orders: [...orders, ...drawPeople(random.stream("people"))].sort((a, b) => a.atMs - b.atMs),
  };
}

/** Some seeds have much of a concern, and some have nothing. */
const countOf = ({ below }: Random, most: number): number =>
  below(2) === 0 ? below(2) : below(most + 1);

function common({ below }: Random): Common {
  const atMs = 10_000 + below(CALM_AT_MS - 50_000);
  const forMs = below(3) === 0 ? 20_000 + below(120_000) : 2_000 + below(25_000);
  return { atMs, target: below(1_000), forMs };
}

function many<Item>(random: Random, most: number, draw: () => Item): readonly Item[] {
  return Array.from({ length: countOf(random, most) }, draw);
}

const drawDisks = (random: Random): readonly Fault[] =>
  many(random, 3, (): Fault => {
    const how = (["full", "full", "read-only", "slow"] as const)[random.below(4)] ?? "full";
    return { ...common(random), kind: "disk", how };
  });

const drawTorn = (random: Random): readonly Fault[] =>
  many(random, 2, (): Fault => {
    const isPowerLost = random.below(2) === 0;
    return { ...common(random), kind: "torn", pattern: random.below(2 ** 16), isPowerLost };
  });

const drawClocks = (random: Random): readonly Fault[] =>
  many(random, 3, (): Fault => {
    const byMs = random.below(2 * MOST_JUMP_MS) - MOST_JUMP_MS;
    const rate = 1 + (2 * random.unit() - 1) * MOST_DRIFT;
    return { ...common(random), kind: "host-clock", byMs, rate };
  });

const drawWords = (random: Random): readonly Fault[] =>
  many(random, 6, (): Fault => {
    const how = (["again", "again", "again", "broken", "broken", "huge"] as const)[random.below(6)];
    const count = 1 + random.below(6);
    return { ...common(random), kind: "words", how: how ?? "again", count };
  });

const drawResets = (random: Random): readonly Fault[] => [
  ...many(random, 3, (): Fault => ({ ...common(random), kind: "reset-job" })),
  ...many(random, 1, (): Fault => ({ ...common(random), kind: "next-batch" })),
];

/** Within the fence of the host: what was left there runs on. */
const drawLeads = (random: Random): readonly Fault[] =>
  many(random, 2, (): Fault => {
    const thenMs = 25_000 + random.below(60_000);
    return { ...common(random), forMs: thenMs + 30_000, kind: "lead-away", thenMs };
  });

const drawPeople = (random: Random): readonly Order[] =>
  many(random, 4, (): Order => {
    const kind = (["kill", "amend-more", "amend-more"] as const)[random.below(3)] ?? "kill";
    return { ...common(random), kind };
  });
