import { totalmem } from "node:os";
import { expect, it } from "vitest";
import { parseHostId } from "../../domain/values/ids.ts";
import { keepersByService, readKeptWeights, serviceMark } from "../../domain/lease/kept-weights.ts";
import { gib, watts } from "../../domain/values/units.ts";
import { hostResources, hostWeightsBytes, withWeights } from "../../workers/host-resources.ts";

it.each([
  [
    "as stated",
    { cpus: 96, hostMemoryGiB: gib(2) },
    false,
    { cpus: 96, memoryBytes: 2 ** 31, stated: ["cpus", "memoryBytes"] },
  ],
  ["as stated, of a simulated host", { cpus: 4 }, true, { cpus: 4, stated: ["cpus"] }],
  ["not at all of a simulated host of which nothing is stated", {}, true, {}],
])("a host's processors and memory are shared %s", (_, host, isSimulated, want) => {
  expect(hostResources(host, { isSimulated })).toEqual(want);
});

it("a host of which nothing is stated shares its processors and most of its memory", () => {
  const { cpus = 0, memoryBytes = 0 } = hostResources({}, { isSimulated: false });
  expect(cpus).toBeGreaterThanOrEqual(1);
  expect(memoryBytes).toBeGreaterThan(0);
  expect(memoryBytes).toBeLessThan(totalmem());
});

it("weights take what is stated of them, and jobs share the rest", () => {
  const cluster = { isSimulated: false, hosts: [] };
  expect(hostWeightsBytes({ weightsGiB: gib(3) }, cluster)).toBe(3 * 2 ** 30);
  expect(hostWeightsBytes({ weightsGiB: gib(0) }, cluster)).toBe(0);
  const { memoryBytes: without = 0 } = hostResources({}, cluster);
  const { memoryBytes: beside = 0 } = hostResources({ weightsGiB: gib(1 / 64) }, cluster);
  expect(without - beside).toBe(2 ** 24);
});

it("unstated weights take half of what jobs do not share, of one machine for all hosts of a simulated cluster", () => {
  const cluster = { isSimulated: false, hosts: [] };
  const { memoryBytes = 0 } = hostResources({}, cluster);
  const bytes = hostWeightsBytes({}, cluster);
  expect(bytes).toBeGreaterThan(0);
  expect(memoryBytes + 2 * bytes).toBeLessThanOrEqual(totalmem());
  const all = { hostMemoryGiB: gib(Math.ceil(totalmem() / 2 ** 30)) };
  expect(hostWeightsBytes(all, cluster)).toBe(0);
  const host = {
    ...{ gpuType: "L4", gpuCount: 1, gpuMemoryGiB: gib(24), gpuWatts: watts(72) },
    id: parseHostId("a/b"),
  };
  expect(hostWeightsBytes({}, { isSimulated: true, hosts: [host, host] })).toBe(
    Math.floor(hostWeightsBytes({}, { isSimulated: true, hosts: [host] }) / 2),
  );
});

it("heartbeats tell what is kept, and only what has their form is read", () => {
  const use = { models: 2, bytes: 300, budgetBytes: 1_000 };
  const pool = { budgetBytes: 1_000, area: () => undefined, trim: () => undefined };
  const hosts = [
    { id: parseHostId("a/one"), weights: { ...pool, use: () => use } },
    { id: parseHostId("a/none"), weights: { ...pool, use: () => ({ ...use, models: 0 }) } },
    { id: parseHostId("a/without") },
  ];
  expect(withWeights(undefined, hosts.slice(1))).toBeUndefined();
  const beat = withWeights(undefined, hosts);
  const left = { [parseHostId("a/none")]: "2030-05-04T06:00:00Z: a check" };
  expect(withWeights({ use: {}, left }, hosts)).toEqual({ ...beat, left });
  expect([...readKeptWeights(beat)]).toEqual([["a/one", use]]);
  const services = [serviceMark({ tenant: "lab", name: "pictures" }), "junk", 1];
  const kept = readKeptWeights({ weights: { "a/b": { ...use, services } } });
  expect([...kept.values()]).toEqual([{ ...use, services: services.slice(0, 1) }]);
  const keepersOf = keepersByService([{ host: parseHostId("a/b"), services: [`${services[0]}`] }]);
  expect(keepersOf({ tenant: "lab", name: "pictures" })).toEqual(new Set(["a/b"]));
  expect(keepersOf({ tenant: "other", name: "pictures" })).toBeUndefined();
  expect(readKeptWeights({ weights: { "a/b": { ...use, bytes: -1 }, "no host": use } }).size).toBe(
    0,
  );
  expect(readKeptWeights("junk").size).toBe(0);
});
