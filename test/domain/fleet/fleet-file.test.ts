/** @file Fleet files: what a right one means, and what is said about a wrong one. */

import { describe, expect, it } from "vitest";
import { fleetOf, problemsOf, SMALL_FLEET, yamlProblems } from "../fleet-text.ts";

const [EU, US] = SMALL_FLEET.clusters;
const withEu = (change: object) => ({ ...SMALL_FLEET, clusters: [{ ...EU, ...change }, US] });
const withHosts = (...hosts: object[]) => withEu({ hosts });

describe("a right fleet file", () => {
  it("becomes clusters, hosts one by one, and links in both directions", () => {
    const { name, shape, details, interHost } = fleetOf(SMALL_FLEET);
    const h100 = { gpuType: "H100", gpuCount: 4, gpuMemoryGiB: 80, gpuWatts: 700 };
    expect({ name, shape }).toEqual({
      name: "small",
      shape: {
        clusters: [
          {
            id: "eu",
            site: "frankfurt",
            jurisdiction: "EU",
            isSimulated: false,
            hosts: [
              { id: "eu/h1", ...h100 },
              { id: "eu/h2", ...h100 },
            ],
          },
          {
            id: "us",
            site: "iowa",
            jurisdiction: "US",
            isSimulated: false,
            hosts: [
              { id: "us/n1", gpuType: "A100-80", gpuCount: 8, gpuMemoryGiB: 80, gpuWatts: 400 },
            ],
          },
        ],
        links: [
          { from: "eu", to: "us", bandwidthGbps: 5, latencyMs: 90 },
          { from: "us", to: "eu", bandwidthGbps: 5, latencyMs: 90 },
        ],
        tenants: [{ id: "research", weight: 1, quota: {}, borrowingLimit: 0 }],
      },
    });
    expect([details.size, interHost.size]).toEqual([0, 0]);
  });

  it("keeps what it says of fabric, budgets, racks, prices, quotas and weights", () => {
    const { shape } = fleetOf({
      clusters: [
        {
          name: "a",
          site: "s",
          jurisdiction: "EU",
          simulated: true,
          fabric: { bandwidth: "400 Gbps" },
          power: "10 kW",
          cooling: "9500 W",
          hosts: [
            {
              ...{ name: "h", gpus: 2, type: "h100", memory: "94 GiB", watts: "600 W" },
              ...{ rack: "r1", devices: "cpu", hostMemory: "64 GiB", weights: "16 GiB" },
            },
          ],
        },
        { name: "b", site: "s", jurisdiction: "EU", hosts: [{ name: "h", gpus: 1, type: "L4" }] },
      ],
      links: [{ from: "a", to: "b", bandwidth: "1 Gbps", latency: "250us", price: "0.02 USD/GB" }],
      tenants: [{ name: "t", weight: 0.5, quota: { h100: 16, "*": 8 }, borrowing: 4 }],
    });
    expect(shape.clusters[0]).toEqual({
      id: "a",
      site: "s",
      jurisdiction: "EU",
      isSimulated: true,
      fabricGbps: 400,
      powerBudgetWatts: 10_000,
      coolingBudgetWatts: 9_500,
      hosts: [
        {
          ...{ id: "a/h", gpuType: "H100", gpuCount: 2, gpuMemoryGiB: 94, gpuWatts: 600 },
          ...{ rack: "r1", devices: "cpu", hostMemoryGiB: 48, weightsGiB: 16 },
        },
      ],
    });
    expect(shape.links).toEqual([
      { from: "a", to: "b", bandwidthGbps: 1, latencyMs: 0.25, usdPerGB: 0.02 },
    ]);
    expect(shape.tenants).toEqual([
      { id: "t", weight: 0.5, quota: { H100: 16, "*": 8 }, borrowingLimit: 4 },
    ]);
  });

  it("is called default when it has no name", () => {
    expect(fleetOf({ clusters: SMALL_FLEET.clusters }).name).toBe("default");
  });

  it("may describe GPU types of its own, and well-known ones otherwise", () => {
    const { shape } = fleetOf({
      gpuTypes: [
        { name: "MI300X", memory: "192 GiB", watts: "750 W" },
        { name: "H100", memory: "80 GiB", watts: "500 W" },
      ],
      clusters: [
        {
          name: "a",
          site: "s",
          jurisdiction: "EU",
          hosts: [
            { name: "m", gpus: 8, type: "MI300X" },
            { name: "h", gpus: 8, type: "H100" },
          ],
        },
      ],
    });
    expect(shape.clusters[0]?.hosts.map((host) => [host.gpuMemoryGiB, host.gpuWatts])).toEqual([
      [192, 750],
      [80, 500],
    ]);
  });
});

describe("a wrong fleet file", () => {
  it.each([
    ["no cluster", { clusters: [] }, "clusters: an empty list; name at least 1"],
    ["an empty cluster", withHosts(), "clusters[0].hosts: an empty list; name at least 1"],
    [
      "an unknown key",
      withEu({ juridiction: "EU" }),
      "clusters[0].juridiction: unknown key `juridiction`; did you mean `jurisdiction`?",
    ],
    [
      "too many GPUs in a host",
      withHosts({ name: "h", gpus: 31, type: "H100" }),
      "clusters[0].hosts[0].gpus: 31 is too large; write a whole number from 1 to 30",
    ],
    [
      "an unknown GPU type",
      withHosts({ name: "h", gpus: 1, type: "H1000" }),
      'clusters[0].hosts[0].type: GPU type "H1000" is unknown; did you mean H100? Else write memory and watts here, or describe the type in gpuTypes',
    ],
    [
      "an unknown GPU type with memory alone",
      withHosts({ name: "h", gpus: 1, type: "Zeta", memory: "8 GiB" }),
      'clusters[0].hosts[0].type: GPU type "Zeta" is unknown; write watts here, or describe the type in gpuTypes',
    ],
    [
      "a host twice",
      withHosts({ name: "h[1-3]", gpus: 1, type: "L4" }, { name: "h2", gpus: 1, type: "L4" }),
      'clusters[0].hosts[1].name: host "h2" of cluster "eu" is there twice, first at clusters[0].hosts[0]; rename one, or correct its range',
    ],
    [
      "a cluster twice",
      { ...SMALL_FLEET, clusters: [EU, US, US] },
      'clusters[2].name: cluster "us" is there twice, first at clusters[1]; rename or remove one',
    ],
    [
      "a tenant twice",
      { ...SMALL_FLEET, tenants: [{ name: "t" }, { name: "t" }] },
      'tenants[1].name: tenant "t" is there twice, first at tenants[0]; rename or remove one',
    ],
    [
      "a small power budget",
      withEu({ power: "500 W" }),
      "clusters[0].power: 500 W is less than one GPU of the cluster draws, 700 W; write what all its GPUs may draw together, or leave it out",
    ],
    [
      "a small cooling budget",
      withEu({ cooling: "0.1 kW" }),
      "clusters[0].cooling: 100 W is less than one GPU of the cluster draws, 700 W; write what all its GPUs may draw together, or leave it out",
    ],
    [
      "a quota of an absent type",
      { ...SMALL_FLEET, tenants: [{ name: "t", quota: { H200: 1 } }] },
      'tenants[0].quota.H200: the fleet has no GPU type "H200"; did you mean H100?',
    ],
    [
      "a negative quota",
      { ...SMALL_FLEET, tenants: [{ name: "t", quota: { "*": -1 } }] },
      "tenants[0].quota.*: -1 is too small; write a whole number from 0 to 100000",
    ],
    [
      "a reserved GPU type",
      { ...SMALL_FLEET, tenants: [{ name: "t", quota: { constructor: 1 } }] },
      'tenants[0].quota.constructor: "constructor" is reserved; name the GPU type otherwise',
    ],
    [
      "a weight of nothing",
      { ...SMALL_FLEET, tenants: [{ name: "t", weight: 0 }] },
      "tenants[0].weight: 0 is out of range; write a number above 0, at most 1000000",
    ],
  ])("with %s", (_, file, want) => {
    expect(problemsOf(file)).toEqual([want]);
  });

  const ends = { bandwidth: "1 Gbps", latency: "1ms" };
  it.each([
    [
      "an unknown cluster",
      [{ ...ends, between: ["eu", "uss"] }],
      ['links[0].between[1]: the fleet has no cluster "uss"; did you mean us?'],
    ],
    [
      "two unknown clusters",
      [{ ...ends, from: "x1", to: "y1" }],
      [
        'links[0].from: the fleet has no cluster "x1"; known are eu, us',
        'links[0].to: the fleet has no cluster "y1"; known are eu, us',
      ],
    ],
    [
      "one end",
      [{ ...ends, from: "eu" }],
      [
        "links[0]: the link has not two ends; write between: [a, b] for both directions, or from: a and to: b",
      ],
    ],
    [
      "both forms",
      [{ ...ends, between: ["eu", "us"], to: "us" }],
      [
        "links[0]: between is given, and from or to as well; write between: [a, b] for both directions, or from: a and to: b",
      ],
    ],
    [
      "one end in between",
      [{ ...ends, between: ["eu"] }],
      ["links[0].between: a list of 1; name at least 2, or leave the key out"],
    ],
    [
      "three ends",
      [{ ...ends, between: ["eu", "us", "eu"] }],
      ["links[0].between: a list of 3; name at most 2"],
    ],
    [
      "itself",
      [{ ...ends, between: ["eu", "eu"] }],
      ['links[0].between[1]: the link joins "eu" with itself; name two clusters'],
    ],
    [
      "a direction twice",
      [
        { ...ends, between: ["eu", "us"] },
        { ...ends, from: "us", to: "eu" },
      ],
      ["links[1]: a link from us to eu is there already, at links[0]; keep one of the two"],
    ],
    [
      "no figures",
      [{ between: ["eu", "us"] }],
      [
        "links[0].bandwidth: missing; write a bandwidth such as 400 Gbps",
        "links[0].latency: missing; write a latency such as 67.5ms",
      ],
    ],
  ])("with a link of %s", (_, links, want) => {
    expect(problemsOf({ ...SMALL_FLEET, links }).sort()).toEqual(want);
  });

  it("refuses more hosts than a fleet may have without naming them all", () => {
    const entries = Array.from({ length: 50 }, (_, index) => ({
      name: `h${index}-[1-9999]`,
      gpus: 1,
      type: "L4",
    }));
    expect(problemsOf(withHosts(...entries))).toEqual([
      "clusters[0].hosts[1].name: the fleet has more than 10000 hosts; make several fleets of them",
    ]);
  });

  it("has all its problems told at once, each at its line and column", () => {
    const text = [
      "name: a b",
      "clusters:",
      "  - name: eu",
      "    site: frankfurt",
      "    juridiction: EU",
      "    power: 500 W",
      "    hosts:",
      "      - { name: h1, gpus: 40, type: H100 }",
      "      - { name: h1, gpus: 4, type: H10O }",
      "links:",
      "  - { between: [eu, us], bandwidth: 5, latency: 3ms }",
    ].join("\n");
    expect(yamlProblems(text).map((problem) => problem.slice(0, problem.indexOf(": ")))).toEqual([
      "fleet.yaml:1:7 name",
      "fleet.yaml:3:5 clusters[0].jurisdiction",
      "fleet.yaml:5:5 clusters[0].juridiction",
      "fleet.yaml:6:12 clusters[0].power",
      "fleet.yaml:8:27 clusters[0].hosts[0].gpus",
      "fleet.yaml:9:17 clusters[0].hosts[1].name",
      "fleet.yaml:9:36 clusters[0].hosts[1].type",
      "fleet.yaml:11:21 links[0].between[1]",
      "fleet.yaml:11:37 links[0].bandwidth",
    ]);
  });
});
