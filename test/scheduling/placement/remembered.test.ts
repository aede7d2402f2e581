/** @file A policy that remembers gives the answers of the one that does not, and asks it once for each question. */
import { describe, expect, test } from "vitest";
import { leastSpread } from "../../../scheduling/placement/least-spread.ts";
import type {
  PlaceDemand,
  PlaceHost,
  PlacePolicy,
} from "../../../scheduling/placement/place-policy.ts";
import { remembered } from "../../../scheduling/placement/remembered.ts";
import { openSpread } from "../../../scheduling/placement/spread.ts";
import { fleetOf } from "./fleets.ts";

const RACKS = [{ cluster: "c0", rack: "r0", hosts: 3 }];
const DEMAND: PlaceDemand = { gpus: 4, maxClusters: 1, isSameHost: false, isSameFabric: false };

function opened() {
  const spread = openSpread(fleetOf(RACKS));
  let asked = 0;
  const counting: PlacePolicy = (...question) => {
    asked += 1;
    return leastSpread(...question);
  };
  const place = remembered(counting);
  const hostsOf = (...freeMasks: readonly number[]): PlaceHost[] =>
    [...spread.layout.values()].map((at, index) => ({ at, freeMask: freeMasks[index] ?? 0 }));
  return { spread, place, hostsOf, asked: () => asked };
}

describe("a policy that remembers", () => {
  test.each<{
    readonly name: string;
    readonly demand: PlaceDemand;
    readonly masks: readonly number[];
    readonly wantAsked: number;
  }>([
    { name: "the same again", demand: DEMAND, masks: [15, 255, 255], wantAsked: 1 },
    { name: "another size", demand: { ...DEMAND, gpus: 5 }, masks: [15, 255, 255], wantAsked: 2 },
    {
      name: "another shape",
      demand: { ...DEMAND, isSameHost: true },
      masks: [15, 255, 255],
      wantAsked: 2,
    },
    { name: "other GPUs free", demand: DEMAND, masks: [7, 255, 255], wantAsked: 2 },
    {
      name: "watts, which cannot be compared",
      demand: { ...DEMAND, wattsLeft: {} },
      masks: [15, 255, 255],
      wantAsked: 2,
    },
  ])("answers $name as the policy itself", ({ demand, masks, wantAsked }) => {
    const { spread, place, hostsOf, asked } = opened();
    place(DEMAND, hostsOf(15, 255, 255), { spread });
    const answer = place(demand, hostsOf(...masks), { spread });
    expect(asked()).toBe(wantAsked);
    expect(answer).toEqual(leastSpread(demand, hostsOf(...masks), { spread }));
  });

  test("never hands out the same list twice, and a host that changes under it is seen", () => {
    const { spread, place, hostsOf, asked } = opened();
    const hosts = hostsOf(15, 255, 255);
    const first = place(DEMAND, hosts, { spread });
    expect(place(DEMAND, hosts, { spread }).gpus).not.toBe(first.gpus);
    const [changed, ...others] = hosts;
    const after = [...(changed === undefined ? [] : [{ ...changed, freeMask: 0 }]), ...others];
    expect(place(DEMAND, after, { spread }).gpus).not.toEqual(first.gpus);
    expect(asked()).toBe(2);
  });

  test("forgets the oldest question, not the answers to new ones", () => {
    const { spread, place, hostsOf, asked } = opened();
    for (let mask = 1; mask <= 65; mask += 1) place(DEMAND, hostsOf(mask, 255, 255), { spread });
    place(DEMAND, hostsOf(65, 255, 255), { spread });
    expect(asked()).toBe(65);
    place(DEMAND, hostsOf(1, 255, 255), { spread });
    expect(asked()).toBe(66);
  });
});
