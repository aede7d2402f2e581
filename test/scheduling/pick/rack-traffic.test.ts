/** @file What gangs that leave their racks leave of a newcomer's bandwidth. */

import { describe, expect, it } from "vitest";
import type { BandwidthDomain, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { rackTraffic } from "../../../scheduling/pick/rack-traffic.ts";

/** Four racks of two hosts; each host sends 100 GB/s. */
const domain: BandwidthDomain = {
  hosts: Array.from({ length: 8 }, (_, at) => ({
    id: hostId("c", `h${String(at)}`),
    gpuCount: 8,
    gpuType: "H100",
    rack: `r${String(at >> 1)}`,
  })),
  intraGbs: () => 400,
};

const whole = (...hosts: number[]): Candidate => hosts.map((host) => ({ host, mask: 255 }));

describe("the traffic between racks", () => {
  const traffic = rackTraffic(domain, {
    neighbours: [
      { shares: whole(0, 2), gbs: 60 },
      { shares: whole(3, 4), gbs: 40 },
      { shares: whole(6, 7), gbs: 90 },
    ],
    capacityOf: () => 100,
  });

  it("is that of the gangs that leave the rack, and of no others", () => {
    expect(domain.hosts.map((_, host) => traffic.ofHost(host))).toEqual([
      60, 60, 100, 100, 40, 40, 0, 0,
    ]);
  });

  it("leaves a gang what its busiest rack leaves, and a gang in one rack everything", () => {
    expect(traffic.partOf(whole(1, 5))).toBeCloseTo(200 / 260);
    expect(traffic.partOf(whole(5, 6))).toBeCloseTo(200 / 240);
    expect(traffic.partOf(whole(1, 3, 5))).toBeCloseTo(200 / 300);
    expect(traffic.partOf(whole(2, 3))).toBe(1);
    expect(traffic.partOf(whole(7))).toBe(1);
  });

  it("takes nothing where nobody leaves a rack", () => {
    const quiet = rackTraffic(domain, { neighbours: [], capacityOf: () => 100 });
    expect(quiet.partOf(whole(0, 2, 4, 6))).toBe(1);
  });
});
