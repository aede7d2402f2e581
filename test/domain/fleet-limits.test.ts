/** @file What a fleet file says of sites, racks, maintenance and policy: its meaning, and what is refused with place and remedy. */

import { describe, expect, it } from "vitest";
import { gpuTimeText, parseGpuTime } from "../../domain/values/dimensions.ts";
import { fleetShapeProblem } from "../../domain/fleet/fleet-shape.ts";
import { fleetOf, problemsOf, SMALL_FLEET, topologyText, yamlProblems } from "./fleet-text.ts";

const [EU, US] = SMALL_FLEET.clusters;
const withEu = (change: object) => ({ ...SMALL_FLEET, clusters: [{ ...EU, ...change }, US] });
const host = { name: "h[1-2]", gpus: 4, type: "H100", rack: "r1" };
const FROM = "2030-05-04T06:00:00Z";
const TO = "2030-05-04T10:00:00Z";

describe("a right fleet file", () => {
  it("keeps the budgets of sites and racks, and maintenance as times since 1970", () => {
    const { shape } = fleetOf({
      ...SMALL_FLEET,
      sites: [{ name: "frankfurt", power: "5 kW", cooling: "4 kW" }],
      clusters: [
        {
          name: "eu",
          site: "frankfurt",
          jurisdiction: "EU",
          hosts: [host],
          racks: [{ name: "r1", power: "2800 W" }],
          maintenance: [
            { hosts: ["h[1-2]"], from: FROM, to: TO, reason: "new firmware" },
            { from: "2030-05-05T08:00:00.500+02:00", to: "2030-05-05T09:00+02:00" },
          ],
        },
      ],
      links: [],
    });
    expect(shape.sites).toEqual([
      { id: "frankfurt", powerBudgetWatts: 5_000, coolingBudgetWatts: 4_000 },
    ]);
    const [eu] = shape.clusters;
    expect(eu?.racks).toEqual([{ id: "r1", powerBudgetWatts: 2_800 }]);
    const beginMs = Date.UTC(2030, 4, 4, 6);
    expect(eu?.maintenance).toEqual([
      {
        hosts: ["eu/h1", "eu/h2"],
        fromMs: beginMs,
        toMs: beginMs + 4 * 3_600_000,
        reason: "new firmware",
      },
      { fromMs: beginMs + 86_400_500, toMs: beginMs + 86_400_000 + 3_600_000 },
    ]);
    expect(fleetShapeProblem(structuredClone(shape))).toBeUndefined();
  });

  it("says of its policy what it wants to change; the rest has defaults", () => {
    const policyOf = (policy: object) => fleetOf({ ...SMALL_FLEET, policy }).shape.policy;
    const usual = {
      classWeights: { inference: 100, interactive: 10, training: 1 },
      agingMs: 60_000,
      isPreempting: true,
      preemptionBudgetGpuSeconds: 36_000,
      maxReserveShare: 0.05,
    };
    expect(policyOf({})).toEqual(usual);
    expect(
      policyOf({
        weights: { training: 2.5 },
        aging: "10m",
        preemption: { enabled: false, budget: "90 GPU-minutes", perJob: 3, coolDown: "30m" },
        reserve: 0,
      }),
    ).toEqual({
      classWeights: { inference: 100, interactive: 10, training: 2.5 },
      agingMs: 600_000,
      isPreempting: false,
      preemptionBudgetGpuSeconds: 5_400,
      maxPreemptions: 3,
      coolDownMs: 1_800_000,
      maxReserveShare: 0,
    });
    expect(fleetOf(SMALL_FLEET).shape).not.toHaveProperty("policy");
  });

  it("tells placement the NVLink domains and NUMA nodes of hosts whose topology it names", () => {
    const hosts = [{ name: "h1", gpus: 4, type: "H100", topology: "topo.txt" }];
    const file = { ...SMALL_FLEET, clusters: [{ ...EU, hosts }], links: [] };
    const { shape } = fleetOf(file as typeof SMALL_FLEET, { "topo.txt": topologyText(4) });
    expect(shape.clusters[0]?.hosts[0]).toMatchObject({ nvlinkDomains: [0b1111] });
    expect(fleetShapeProblem(structuredClone(shape))).toBeUndefined();
  });
});

describe("GPU time", () => {
  it.each([
    ["10 GPU-hours", 36_000],
    ["1.5GPU-h", 5_400],
    ["90 GPU-seconds", 90],
  ])("%s is %d GPU-seconds, and reads back as printed", (text, want) => {
    expect(parseGpuTime(text)).toEqual({ kind: "read", value: want });
    expect(parseGpuTime(gpuTimeText(want))).toEqual({ kind: "read", value: want });
  });

  it.each([
    [36_000, "36000 has no unit; write 36000 GPU-seconds"],
    ["10h", 'unit "h" is unknown; units of amount of GPU time are'],
    ["0.5 GPU-s", '"0.5 GPU-s" is finer than 1 GPU-s; write a multiple of 1 GPU-s'],
  ])("%j is refused", (budget, want) => {
    const [problem] = problemsOf({ ...SMALL_FLEET, policy: { preemption: { budget } } });
    expect(problem).toContain(`policy.preemption.budget: ${want}`);
  });
});

describe("a wrong fleet file", () => {
  it.each([
    [
      { ...SMALL_FLEET, sites: [{ name: "frankfort", power: "5 kW" }] },
      'sites[0].name: the fleet has no site "frankfort"; did you mean frankfurt?',
    ],
    [
      { ...SMALL_FLEET, sites: [{ name: "iowa" }] },
      "sites[0]: the site is given neither power nor cooling; write power: or cooling:, or leave the entry out",
    ],
    [
      { ...SMALL_FLEET, sites: [{ name: "iowa", power: "300 W" }] },
      "sites[0].power: 300 W is less than one GPU of the site draws, 400 W; write what all its GPUs may draw together, or leave it out",
    ],
    [
      {
        ...SMALL_FLEET,
        sites: ["a", "b"].map((power) => ({
          name: "iowa",
          power: power === "a" ? "1 kW" : "2 kW",
        })),
      },
      'sites[1].name: site "iowa" is there twice, first at sites[0]; rename or remove one',
    ],
    [
      withEu({ racks: [{ name: "r1", power: "5 kW" }] }),
      'clusters[0].racks[0].name: cluster "eu" has no rack "r1"; there is none',
    ],
    [
      withEu({ hosts: [host], racks: [{ name: "r1", cooling: "500 W" }] }),
      "clusters[0].racks[0].cooling: 500 W is less than one GPU of the rack draws, 700 W; write what all its GPUs may draw together, or leave it out",
    ],
    [
      withEu({ maintenance: [{ hosts: ["h1", "h[2-3]"], from: FROM, to: TO }] }),
      'clusters[0].maintenance[0].hosts[1]: cluster "eu" has no host "h3"; did you mean h1?',
    ],
    [
      withEu({ maintenance: [{ from: TO, to: FROM }] }),
      "clusters[0].maintenance[0].to: the maintenance is over before it begins; write a later time, or exchange from and to",
    ],
    [
      withEu({ maintenance: [{ from: "2030-05-04 06:00", to: TO }] }),
      'clusters[0].maintenance[0].from: "2030-05-04 06:00" is not a point in time; write date, time and zone, such as 2030-05-04T06:00:00Z',
    ],
    [
      withEu({ maintenance: [{ from: "2030-02-30T06:00:00Z", to: TO }] }),
      'clusters[0].maintenance[0].from: "2030-02-30T06:00:00Z" does not exist; write date, time and zone, such as 2030-05-04T06:00:00Z',
    ],
    [
      { ...SMALL_FLEET, policy: { reserve: 0.9 } },
      "policy.reserve: 0.9 is out of range; write a number from 0 to 0.5",
    ],
    [
      { ...SMALL_FLEET, policy: { weights: { training: 0 } } },
      "policy.weights.training: 0 is out of range; write a number above 0, at most 1000000",
    ],
    [
      { ...SMALL_FLEET, policy: { ageing: "1m" } },
      "policy.ageing: unknown key `ageing`; did you mean `aging`?",
    ],
  ])("%# has one problem", (file, want) => {
    expect(problemsOf(file)).toEqual([want]);
  });

  it("has the line and column of the value told", () => {
    const text = [
      "clusters:",
      "  - name: eu",
      "    site: s",
      "    jurisdiction: EU",
      "    hosts: [{ name: h1, gpus: 1, type: H100 }]",
      "    maintenance:",
      "      - from: 2030-05-04T06:00:00Z",
      "        to: tomorrow",
    ].join("\n");
    expect(yamlProblems(text)).toEqual([
      'fleet.yaml:8:13 clusters[0].maintenance[0].to: "tomorrow" is not a point in time; write date, time and zone, such as 2030-05-04T10:00:00Z',
    ]);
  });
});

describe("the guard of the fleet workflow", () => {
  const shape = { clusters: [{ id: "a", hosts: [] }], links: [], tenants: [] };
  const policy = fleetOf({ ...SMALL_FLEET, policy: {} }).shape.policy;
  it.each([
    [{ ...shape, sites: [{ id: "s", powerBudgetWatts: "many" }] }, /powerBudgetWatts of a site/],
    [{ ...shape, sites: {} }, /a site is in no list/],
    [
      { ...shape, clusters: [{ id: "a", hosts: [], racks: [{}] }] },
      /a rack of cluster a has no id/,
    ],
    [
      { ...shape, clusters: [{ id: "a", hosts: [], maintenance: [{ fromMs: 1 }] }] },
      /a maintenance/,
    ],
    [{ ...shape, policy: { ...policy, agingMs: 0 } }, /not above 0/],
    [{ ...shape, policy: { ...policy, maxReserveShare: 2 } }, /reserve/],
    [{ ...shape, policy: { ...policy, isPreempting: 1 } }, /isPreempting/],
    [
      { ...shape, tenants: [{ id: "t", quota: {}, borrowingLimit: 0, weight: 0 }] },
      /weight of tenant t/,
    ],
  ])("%# is refused", (value, want) => {
    expect(fleetShapeProblem(value)).toMatch(want);
  });
});
