import { describe, expect, it } from "vitest";
import { launchLimits, type HostResources } from "../../../agent/containment/limits.ts";
import type { ResourceNeed } from "../../../domain/job/job-resources.ts";
import { gib } from "../../../domain/values/units.ts";
import { HOST, orderOf, OTHER_HOST } from "../fixture.ts";

const GIB = 2 ** 30;
const host = (resources: HostResources) => ({ gpuCount: 8, resources });
const whole = host({ cpus: 32, memoryBytes: 64 * GIB });
const order = (mask: number, resources?: ResourceNeed, elsewhere = 0) =>
  orderOf("true", {
    gang: [
      { host: HOST, mask, address: "a" },
      ...(elsewhere > 0 ? [{ host: OTHER_HOST, mask: elsewhere, address: "b" }] : []),
    ],
    run: resources === undefined ? {} : { resources },
  });

describe("the limits of a launch", () => {
  it.each([
    ["the share of its GPUs by default", order(0b11), { cpus: 8, memoryBytes: 16 * GIB }],
    [
      "what the job asks for each GPU",
      order(0b11, { per: "gpu", cpus: 1.5, memoryGiB: gib(2) }),
      { cpus: 3, memoryBytes: 4 * GIB },
    ],
    [
      "its part of a total by its part of the gang",
      order(0b1, { per: "total", memoryGiB: gib(16) }, 0b111),
      { cpus: 4, memoryBytes: 4 * GIB },
    ],
    [
      "all of the host for all of its GPUs",
      order(0xff, { per: "gpu", cpus: 4, memoryGiB: gib(8) }),
      { cpus: 32, memoryBytes: 64 * GIB },
    ],
  ])("are %s", (_, of, want) => {
    expect(launchLimits(of, whole)).toEqual({ limits: { ...want, hostCpus: 32 } });
  });

  it("count a total for each task of an array", () => {
    const batch = { seq: 1, tasks: [0, 1], slots: 2, gpusPerTask: 2, count: 2 };
    const of = { ...order(0b1111, { per: "total", cpus: 2 }), taskBatch: batch };
    expect(launchLimits(of, host({}))).toEqual({ limits: { cpus: 4 } });
  });

  it("are none on a host of which nothing is known, for a job that asks for nothing", () => {
    expect(launchLimits(order(1), host({}))).toEqual({ limits: {} });
  });

  it.each([
    ["processors", { per: "gpu", cpus: 4.1 }, /4\.1 CPUs for 1 of 8 GPUs.* 4 CPUs/],
    ["memory", { per: "total", memoryGiB: gib(9) }, /9 GiB for 1 of 8 GPUs.* 8 GiB/],
  ] as const)("refuse more %s than the share of its GPUs", (_, need, want) => {
    expect(launchLimits(order(1, need), whole)).toEqual({
      refusal: expect.stringMatching(want) as string,
    });
  });

  describe("where the fleet counts what its hosts state", () => {
    const counted = (of: ReturnType<typeof order>) => ({
      ...of,
      holder: { ...of.holder, resources: {} },
    });
    const stated = host({ cpus: 32, memoryBytes: 64 * GIB, stated: ["memoryBytes"] });

    it("go up to all that the host has", () => {
      const of = counted(order(1, { per: "gpu", memoryGiB: gib(64) }));
      expect(launchLimits(of, stated)).toMatchObject({ limits: { memoryBytes: 64 * GIB } });
    });

    it.each([
      [
        "more than that",
        counted(order(1, { per: "gpu", memoryGiB: gib(65) })),
        /the host has 64 GiB/,
      ],
      [
        "more than the share of what is not stated",
        counted(order(1, { per: "gpu", cpus: 5 })),
        /share there is 4 CPUs/,
      ],
      [
        "more than the share to a lease that is not counted",
        order(1, { per: "gpu", memoryGiB: gib(9) }),
        /share there is 8 GiB/,
      ],
    ])("refuse %s", (_, of, want) => {
      expect(launchLimits(of, stated)).toEqual({ refusal: expect.stringMatching(want) as string });
    });
  });
});
