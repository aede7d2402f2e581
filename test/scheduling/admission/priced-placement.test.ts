/** @file A gang whose request says what it trains gets the place with the shortest step, among a bounded number of places. */
import { describe, expect, test } from "vitest";
import { planPrices } from "../../../activities/plan-prices.ts";
import { gpuCountOf, type HostGpus } from "../../../domain/lease/lease.ts";
import { gbps } from "../../../domain/values/units.ts";
import type { DecidePorts } from "../../../scheduling/cycle/cycle.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { openPrices } from "../../../scheduling/cycle/prices.ts";
import { PRICED_RULES } from "../../../scheduling/ledger/ledger.ts";
import { ask, fleetShape, gpus, inbox, leased, readyLedger } from "../builders.ts";

const HOSTS = Array.from({ length: 4 }, () => ({ type: "H100" }));
const THREE = fleetShape([{ hosts: HOSTS }, { hosts: HOSTS }, { hosts: HOSTS }]);
const TRAINING = JSON.stringify({ model: "gpt2-1.3b", batch: 64 });

interface Granted {
  readonly gpus: readonly HostGpus[];
  readonly reason: string;
  /** How often prices were asked for, and the most places at once. */
  readonly asked: readonly number[];
}

/** The grant of a gang when `priceOf` says the step of each place. */
function granted(
  priceOf: (gpus: readonly HostGpus[]) => number | undefined,
  { training = TRAINING, size = 8, ledger = readyLedger(THREE) } = {},
): Granted {
  const asked: number[] = [];
  const ports: DecidePorts = {
    pricesOf: (_training, places) => {
      asked.push(places.length);
      return { stepMs: places.map(priceOf), work: places.length };
    },
  };
  const constraints = training === "" ? {} : { training };
  const waiting = inbox(ledger, [ask({ gpus: size, constraints })]).ledger;
  const [item] = decide(waiting, 1_000, ports).items;
  return { gpus: item?.gpus ?? [], reason: item?.reason ?? "", asked };
}

const clusterOf = ({ gpus: [first] }: Granted): string => String(first?.host).split("/")[0] ?? "";
const isIn = (gpus: readonly HostGpus[], cluster: string): boolean =>
  gpus.every(({ host }) => host.startsWith(cluster));

describe("a gang with prices", () => {
  test("goes where its step is shorter, and the grant says by how much", () => {
    const found = granted((place) => (isIn(place, "c1") ? 700 : 1_000));
    expect(clusterOf(found)).toBe("c1");
    expect(found.reason).toMatch(/its step takes 700 ms there, 1000 ms in the most compact place/);
  });

  test("stays in the most compact place for a gain within the error", () => {
    expect(clusterOf(granted((place) => (isIn(place, "c1") ? 990 : 1_000)))).toBe("c0");
  });

  test("goes where its model fits", () => {
    const found = granted((place) => (isIn(place, "c2") ? 900 : undefined));
    expect(clusterOf(found)).toBe("c2");
  });

  test("stays where nothing is known of any place", () => {
    expect(clusterOf(granted(() => undefined))).toBe("c0");
  });

  test("is asked about once, and about twelve places at most", () => {
    const many = fleetShape(Array.from({ length: 20 }, () => ({ hosts: HOSTS })));
    const { asked } = granted(() => 1_000, { ledger: readyLedger(many) });
    expect(asked).toHaveLength(1);
    expect(asked[0]).toBe(12);
  });

  test("that says nothing of its model, or lies in a ledger of former rules, is not asked about", () => {
    const former = { ...readyLedger(THREE), applyVersion: PRICED_RULES - 1 };
    expect(granted(() => 1, { training: "" }).asked).toEqual([]);
    expect(granted(() => 1, { ledger: former }).asked).toEqual([]);
  });

  test("may have as many GPUs of each host, where that is faster", () => {
    let ledger = readyLedger(fleetShape([{ hosts: HOSTS }]));
    for (const [at, mask] of [0b1, 0b11, 0b1111_1111, 0b1111_1111].entries()) {
      const busy = gpus([`c0/h${String(at)}`, mask]);
      ledger = leased(ledger, { job: `busy${String(at)}`, gpus: gpuCountOf(busy) }, busy);
    }
    const sizes = ({ gpus: place }: Granted): readonly number[] =>
      place.map((part) => gpuCountOf([part]));
    expect(sizes(granted(() => 1_000, { ledger, size: 12 }))).not.toEqual([6, 6]);
    const isEven = (place: readonly HostGpus[]): boolean =>
      new Set(place.map((part) => gpuCountOf([part]))).size === 1;
    const found = granted((place) => (isEven(place) ? 500 : 1_000), { ledger, size: 12 });
    expect(sizes(found)).toEqual([6, 6]);
  });
});

test("gangs of one cycle share its work", () => {
  const given: number[] = [];
  const prices = openPrices((_training, places, work) => {
    given.push(work);
    return { stepMs: places.map(() => 1), work };
  });
  for (let gang = 0; gang < 4; gang += 1) prices(TRAINING, [[]]);
  expect(given.map((work) => (given[0] ?? 0) / work)).toEqual([1, 2, 4, 8]);
});

describe("with the planner's prices", () => {
  const shape = fleetShape([{ hosts: HOSTS }, { hosts: HOSTS }, { hosts: HOSTS }]);
  const [slow, fast, middle] = shape.clusters;
  if (slow === undefined || fast === undefined || middle === undefined) throw new Error("no fleet");
  const uneven = {
    ...shape,
    clusters: [
      { ...slow, fabricGbps: gbps(10) },
      { ...fast, fabricGbps: gbps(400) },
      { ...middle, fabricGbps: gbps(100) },
    ],
  };

  test("a gang over hosts gets the fastest fabric", () => {
    const constraints = { training: TRAINING };
    const ledger = inbox(readyLedger(uneven), [ask({ gpus: 16, constraints })]).ledger;
    const placeOf = (ports: DecidePorts): string =>
      String(decide(ledger, 1_000, ports).items[0]?.gpus[0]?.host);
    expect(placeOf({})).toMatch(/^c0/);
    expect(placeOf({ pricesOf: planPrices(uneven) })).toMatch(/^c1/);
  });

  test("words that say no model have no prices", () => {
    const prices = planPrices(uneven)("{}", [gpus(["c0/h0", 0b11])], 1_000);
    expect(prices).toEqual({ stepMs: [undefined], work: 0 });
  });
});
