import { describe, expect, it } from "vitest";
import { resourceRefusal } from "../../client/resource-fit.ts";
import { clusterId, hostId } from "../../domain/values/ids.ts";
import { gib, watts } from "../../domain/values/units.ts";
import { SMALL_JOB, specOf } from "../domain/job-text.ts";

const host = (name: string, stated: { cpus?: number; memory?: number }) => ({
  id: hostId("eu-1", name),
  gpuType: "H100",
  gpuCount: 8,
  gpuMemoryGiB: gib(80),
  gpuWatts: watts(700),
  ...(stated.cpus !== undefined && { cpus: stated.cpus }),
  ...(stated.memory !== undefined && { hostMemoryGiB: gib(stated.memory) }),
});
const shapeOf = (...hosts: readonly ReturnType<typeof host>[]) => ({
  clusters: [{ id: clusterId("eu-1"), site: "s", jurisdiction: "EU", isSimulated: false, hosts }],
});
const small = host("small", { cpus: 32, memory: 256 });
const large = host("large", { cpus: 64, memory: 1024 });
const job = (resources: unknown, more: object = {}) =>
  specOf({ ...SMALL_JOB, gang: 2, resources, ...more });

describe("a job that no host of its fleet can hold is refused", () => {
  it.each<[string, unknown, RegExp | undefined]>([
    [
      "for memory",
      { perGpu: { memory: "129 GiB" } },
      /129 GiB for each GPU.* 128 GiB \(eu-1\/large\)/,
    ],
    ["for processors", { total: { cpus: 17 } }, /8\.5 CPUs for each GPU.* 8 CPUs/],
    ["not where one host can", { perGpu: { cpus: 8, memory: "128 GiB" } }, undefined],
    ["not for a total that its GPUs carry", { total: { memory: "256 GiB" } }, undefined],
  ])("%s", (_, resources, want) => {
    const refusal = resourceRefusal(job(resources), shapeOf(small, large));
    if (want === undefined) expect(refusal).toBeUndefined();
    else expect(refusal).toMatch(want);
  });

  it("where it may use the small host alone", () => {
    const pinned = job(
      { perGpu: { memory: "64 GiB" } },
      { constraints: { hosts: ["eu-1/small"] } },
    );
    expect(resourceRefusal(pinned, shapeOf(small, large))).toContain("32 GiB (eu-1/small)");
  });

  it("not where a host does not say what it has", () => {
    const asks = job({ perGpu: { memory: "999 GiB" } });
    expect(resourceRefusal(asks, shapeOf(small, host("unsaid", {})))).toBeUndefined();
  });
});
