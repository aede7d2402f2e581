/**
 * @file What harsh worlds have besides: scenes in which several things go wrong at one place and time, people who change their minds when it matters most,
 * arrays that run for long, and a second crowd of jobs once the faults are over, for the laws of prompt ends.
 *
 * Each concern draws from a stream of its own.
 */

import { ms } from "../domain/values/units.ts";
import type { Random } from "../lib/random.ts";
import { CALM_AT_MS, type DrawnJob, type Fault, type Order, type Settings } from "./settings.ts";

const CROWD_AT_MS = CALM_AT_MS + 20_000;

export function harshened(settings: Settings, random: Random): Settings {
  const { jobs, faults, orders } = settings;
  const scenes = drawScenes(random.stream("scenes"));
  const turns = drawTurns(random.stream("turns"));
  return {
    ...settings,
    jobs: [
      ...jobs,
      ...longArrays(jobs, random.stream("arrays")),
      ...drawCrowd(jobs, random.stream("crowd")),
    ],
    faults: [...faults, ...scenes.faults, ...turns.faults].sort((a, b) => a.atMs - b.atMs),
    orders: [
      ...orders,
      ...scenes.orders,
      ...turns.orders,
      ...drawLateOrders(random.stream("late orders")),
    ].sort((a, b) => a.atMs - b.atMs),
  };
}

interface Drawn {
  readonly faults: readonly Fault[];
  readonly orders: readonly Order[];
}

/** Jobs that are ended while their host is away, with a repair of all leases soon after in half of them; copies of old orders at hosts that forgot. */
function drawScenes({ below }: Random): Drawn {
  const abandoned = Array.from({ length: 1 + below(3) }, () => {
    const atMs = 20_000 + below(CALM_AT_MS - 120_000);
    const common = { atMs, target: below(1_000), forMs: 40_000 + below(60_000) };
    const isCancelled = below(2) === 0;
    const repairAfterMs = below(2) === 0 ? 1_000 + below(15_000) : undefined;
    return { fault: { ...common, kind: "abandon" as const, isCancelled }, repairAfterMs };
  });
  const copies = Array.from({ length: below(3) }, (): Fault => {
    const loses = (["disk", "launches"] as const)[below(2)] ?? "disk";
    const atMs = 60_000 + below(CALM_AT_MS - 100_000);
    return { kind: "copies", loses, atMs, target: below(1_000), forMs: 2_000 + below(8_000) };
  });
  return {
    faults: [...abandoned.map(({ fault }) => fault), ...copies],
    orders: abandoned.flatMap(({ fault, repairAfterMs }): readonly Order[] =>
      repairAfterMs === undefined
        ? []
        : [
            {
              kind: "repair-all",
              atMs: fault.atMs + repairAfterMs,
              target: fault.target,
              forMs: 0,
            },
          ],
    ),
  };
}

/** Users hold what waits and let it go at once, while the words of the fleet are late. */
function drawTurns({ below }: Random): Drawn {
  if (below(2) === 0) return { faults: [], orders: [] };
  const atMs = 20_000 + below(CALM_AT_MS - 80_000);
  return {
    // The first process is the fleet's worker.
    faults: [{ kind: "late", atMs, target: 0, forMs: 10_000 + below(15_000) }],
    orders: Array.from({ length: 6 + below(8) }, (): Order => {
      const forMs = 200 + below(3_000);
      return { kind: "hold-waiting", atMs: atMs + below(20_000), target: below(1_000), forMs };
    }),
  };
}

function longArrays(jobs: readonly DrawnJob[], { below }: Random): readonly DrawnJob[] {
  const pattern = jobs.find(({ spec }) => spec.array !== undefined);
  if (pattern === undefined) return [];
  return Array.from({ length: below(3) }, (_, at): DrawnJob => {
    const id = `long-array-${at}`;
    const { spec } = pattern;
    const gang = { ...spec.gang, gpus: 1, min: 1 };
    const count = 4 + below(12);
    return {
      id,
      atMs: below(150_000),
      runMs: 20_000 + below(60_000),
      failures: below(2),
      spec: { ...spec, name: id, gang, array: { count, parallel: 2 + below(3) } },
    };
  });
}

/** Small jobs that come together once all is well again. */
function drawCrowd(jobs: readonly DrawnJob[], { below }: Random): readonly DrawnJob[] {
  const pattern = jobs.find(({ spec }) => spec.array === undefined);
  if (pattern === undefined || below(2) === 0) return [];
  return Array.from({ length: 6 + below(12) }, (_, at): DrawnJob => {
    const id = `crowd-${at}`;
    const { after: _after, mayFollowFailure: _may, ...spec } = pattern.spec;
    const gang = { ...spec.gang, gpus: 1, min: 1 };
    return {
      id,
      atMs: CROWD_AT_MS + below(5_000),
      runMs: 3_000 + below(12_000),
      failures: 0,
      spec: { ...spec, name: id, gang, isHeld: false, replaceMs: ms(0) },
    };
  });
}

/** Those that wait in the crowd are cancelled, or ended from outside. */
const drawLateOrders = ({ below }: Random): readonly Order[] =>
  Array.from({ length: 2 + below(6) }, (): Order => {
    const kind = (["cancel-waiting", "terminate-waiting"] as const)[below(2)] ?? "cancel-waiting";
    return { kind, atMs: CROWD_AT_MS + 500 + below(25_000), target: below(1_000), forMs: 0 };
  });
