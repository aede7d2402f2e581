import { totalmem } from "node:os";
import { expect, it } from "vitest";
import { gib } from "../../domain/values/units.ts";
import { hostResources } from "../../workers/host-resources.ts";

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
