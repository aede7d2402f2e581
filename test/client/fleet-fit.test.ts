import type { Client } from "@temporalio/client";
import { describe, expect, it } from "vitest";
import { checkFit, resourceRefusal } from "../../client/fleet-fit.ts";
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
    ["not for all of a host's", { total: { cpus: 16 } }, undefined],
    ["not for a total that its GPUs carry", { total: { memory: "256 GiB" } }, undefined],
  ])("%s", (_, resources, want) => {
    const refusal = resourceRefusal(job(resources), shapeOf(small, large), 4);
    if (want === undefined) expect(refusal).toBeUndefined();
    else expect(refusal).toMatch(want);
  });

  it.each<[string, unknown, RegExp | undefined]>([
    [
      "for memory",
      { perGpu: { memory: "1025 GiB" } },
      /1025 GiB for each GPU.* 1024 GiB \(eu-1\/large\)/,
    ],
    ["not for a whole host's", { perGpu: { cpus: 64, memory: "1 TiB" } }, undefined],
  ])("by a fleet that counts: %s", (_, resources, want) => {
    const refusal = resourceRefusal(job(resources), shapeOf(small, large), 5);
    if (want === undefined) expect(refusal).toBeUndefined();
    else expect(refusal).toMatch(want);
  });

  it("where it may use the small host alone", () => {
    const pinned = job(
      { perGpu: { memory: "64 GiB" } },
      { constraints: { hosts: ["eu-1/small"] } },
    );
    expect(resourceRefusal(pinned, shapeOf(small, large), 4)).toContain("32 GiB (eu-1/small)");
  });

  it("not for a share that 1 ÷ GPUs would round up", () => {
    const asks = job({ total: { cpus: 525 } }, { gang: 75 });
    expect(resourceRefusal(asks, shapeOf(host("even", { cpus: 56 })), 4)).toBeUndefined();
  });

  it("not by a fleet that does not answer within three seconds, which is said", async () => {
    const waits: number[] = [];
    const said: string[] = [];
    // Nothing else of it is reached.
    const client = {
      withDeadline: (untilMs: number) => {
        waits.push(untilMs - Date.now());
        return Promise.reject(new Error("deadline exceeded"));
      },
      workflow: { getHandle: () => undefined },
    } as unknown as Client;
    const asks = job({ perGpu: { cpus: 999 } });
    await checkFit(
      client,
      { spec: asks, notices: [] },
      { fleet: "f", onUnchecked: (why) => said.push(why) },
    );
    expect(said).toEqual(["resources were not compared with the hosts: fleet f does not answer"]);
    expect(waits).toHaveLength(1);
    expect(waits[0]).toBeLessThanOrEqual(3_000);
  });

  it("not where a host does not say what it has", () => {
    const asks = job({ perGpu: { memory: "999 GiB" } });
    expect(resourceRefusal(asks, shapeOf(small, host("unsaid", {})))).toBeUndefined();
  });
});
