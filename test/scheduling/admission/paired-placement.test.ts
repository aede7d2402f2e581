/** @file A cluster policy and a GPU policy as one: what each is offered, and when their answers count. */
import { describe, expect, test } from "vitest";
import { clusterId } from "../../../domain/values/ids.ts";
import { pairPolicy } from "../../../scheduling/admission/paired-placement.ts";
import { lowestIds } from "../../../scheduling/pick/lowest-ids.ts";
import type { PickPolicy } from "../../../scheduling/pick/pick-policy.ts";
import { firstFit } from "../../../scheduling/placement/first-fit.ts";
import type { PlaceDemand, PlaceHost } from "../../../scheduling/placement/place-policy.ts";
import type {
  ClusterOffer,
  PlacementPolicy,
} from "../../../scheduling/placement/placement-policy.ts";
import { openSpread } from "../../../scheduling/placement/spread.ts";
import { fleetShape, gpus, host } from "../builders.ts";

const { layout } = openSpread(
  fleetShape([
    { hosts: [{ watts: 700 }, { watts: 350 }, { type: "A100" }] },
    { hosts: [{}], hasFabric: false },
  ]),
);

function free(masks: Readonly<Record<string, number>>): readonly PlaceHost[] {
  return Object.entries(masks).map(([name, freeMask]) => {
    const at = layout.get(host(name));
    if (at === undefined) throw new Error(`no host ${name}`);
    return { at, freeMask };
  });
}

const ANY = { maxClusters: 1, isSameHost: false, isSameFabric: false };
const ALL = free({ "c1/h0": 0xff, "c0/h2": 0xff, "c0/h1": 0x3f, "c0/h0": 0x0f });

function place(
  demand: Partial<PlaceDemand> & { readonly gpus: number },
  {
    hosts = ALL,
    placement = firstFit,
    pick = lowestIds,
  }: {
    hosts?: readonly PlaceHost[];
    placement?: PlacementPolicy;
    pick?: PickPolicy;
  } = {},
) {
  return pairPolicy({ placement, pick })({ ...ANY, ...demand }, hosts, {
    spread: openSpread(fleetShape([])),
  });
}

describe("the offers", () => {
  const offersFor = (demand: Partial<PlaceDemand>, hosts?: readonly PlaceHost[]) => {
    let seen: readonly ClusterOffer[] = [];
    const placement: PlacementPolicy = (_demand, offers) => {
      seen = offers;
      return { candidates: 0 };
    };
    place({ gpus: 1, ...demand }, { placement, ...(hosts && { hosts }) });
    return seen.map(({ cluster, gpuType, gpus: count, largestHostGpus, hasFabric }) => [
      cluster,
      gpuType,
      count,
      largestHostGpus,
      hasFabric,
    ]);
  };

  test("are one for each cluster and GPU type, in the fleet's order", () => {
    expect(offersFor({})).toEqual([
      ["c0", "H100", 10, 6, true],
      ["c0", "A100", 8, 8, true],
      ["c1", "H100", 8, 8, false],
    ]);
  });

  test("hold no hosts without free GPUs", () => {
    expect(offersFor({}, free({ "c0/h0": 0, "c0/h1": 1 }))).toEqual([["c0", "H100", 1, 1, true]]);
  });

  test("stay within the watts, GPUs with the least draw first", () => {
    const wattsLeft = { cluster: () => 6 * 350 + 2 * 700 };
    expect(offersFor({ wattsLeft }).map(([, , count, largest]) => [count, largest])).toEqual([
      [6 + 2, 6],
      [5, 5],
      [5, 5],
    ]);
  });
});

describe("the place", () => {
  test.each([
    {
      name: "lies in the first cluster that holds it",
      gpus: 9,
      want: gpus(["c0/h0", 0x0f], ["c0/h1", 0x1f]),
    },
    { name: "has one GPU type", gpus: 10, want: gpus(["c0/h0", 0x0f], ["c0/h1", 0x3f]) },
    { name: "is none where no cluster has enough of one type", gpus: 11, want: undefined },
    {
      name: "is on one host where one is asked for",
      gpus: 6,
      isSameHost: true,
      want: gpus(["c0/h1", 0x3f]),
    },
    {
      name: "spans clusters where it may, and is sorted by host",
      gpus: 18,
      maxClusters: 2,
      want: gpus(["c0/h0", 0x0f], ["c0/h1", 0x3f], ["c1/h0", 0xff]),
    },
  ])("$name", ({ want, name: _name, ...demand }) => {
    expect(place(demand).gpus).toEqual(want);
  });

  test("is none where the GPU policy finds none in a chosen cluster", () => {
    const working = (candidates: number) => place({ gpus: 9 }, { pick: () => ({ candidates }) });
    expect(working(5)).toEqual({ candidates: working(0).candidates + 5 });
  });

  test("is none in a cluster that was not offered", () => {
    const placement: PlacementPolicy = () => ({
      placement: { gpuType: "H100", parts: [{ cluster: clusterId("c9"), gpus: 1 }] },
      candidates: 1,
    });
    expect(place({ gpus: 1 }, { placement })).toEqual({ candidates: ALL.length + 1 });
  });

  test("is none where it would draw more than a rack or a site may", () => {
    const demand = { gpus: 9 };
    expect(place({ ...demand, wattsLeft: { rack: () => 9 * 700 } }).gpus).toBeDefined();
    expect(place({ ...demand, wattsLeft: { rack: () => 700 } }).gpus).toBeUndefined();
    expect(place({ ...demand, wattsLeft: { site: () => 700 } }).gpus).toBeUndefined();
  });
});
