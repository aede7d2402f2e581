/** @file Which leases share what is learned of their collectives. */

import { describe, expect, it } from "vitest";
import { topologyClass } from "../../../activities/collectives/topology-class.ts";
import type { FleetShape, HostShape } from "../../../domain/fleet/fleet.ts";
import { clusterId, parseHostId } from "../../../domain/values/ids.ts";
import { gib, watts } from "../../../domain/values/units.ts";

const host = (id: string, over: Partial<HostShape> = {}): HostShape => ({
  id: parseHostId(id),
  gpuType: "A100",
  gpuCount: 8,
  gpuMemoryGiB: gib(80),
  gpuWatts: watts(400),
  nvlinkDomains: [0xff],
  ...over,
});
const SHAPE: FleetShape = {
  clusters: [
    {
      id: clusterId("eu-1"),
      site: "s",
      jurisdiction: "EU",
      isSimulated: false,
      hosts: [
        host("eu-1/a"),
        host("eu-1/b"),
        host("eu-1/split", { nvlinkDomains: [0x0f, 0xf0] }),
        host("eu-1/h", { gpuType: "H100" }),
        host("eu-1/i", { gpuType: "H100" }),
        host("eu-1/mig", { gpuType: "H100:1g.10gb", nvlinkDomains: [] }),
      ],
    },
    {
      id: clusterId("us-1"),
      site: "t",
      jurisdiction: "US",
      isSimulated: false,
      hosts: [host("us-1/a")],
    },
  ],
  links: [],
  tenants: [],
};
const classOf = (gpus: Readonly<Record<string, number>>) =>
  topologyClass(
    Object.entries(gpus).map(([id, mask]) => ({ host: parseHostId(id), mask })),
    SHAPE,
  );

describe("the topology class of a lease", () => {
  it.each([
    { gpus: { "eu-1/a": 0x0f, "eu-1/b": 0xf0 }, want: "2x4-A100-nvlink", cluster: "eu-1" },
    { gpus: { "eu-1/a": 0xff, "eu-1/b": 0x0f }, want: "1x8+1x4-A100-nvlink", cluster: "eu-1" },
    { gpus: { "eu-1/split": 0x0f }, want: "1x4-A100-nvlink", cluster: "eu-1" },
    { gpus: { "eu-1/split": 0x1e }, want: "1x4-A100", cluster: "eu-1" },
    { gpus: { "eu-1/a": 1, "eu-1/h": 1 }, want: "2x1-A100+H100-nvlink", cluster: "eu-1" },
    { gpus: { "us-1/a": 0xff, "eu-1/a": 0xff }, want: "2x8-A100-nvlink", cluster: "eu-1+us-1" },
  ])("$gpus is $want in $cluster", ({ gpus, want, cluster }) => {
    expect(classOf(gpus)).toMatchObject({ name: want, cluster });
  });

  it("counts hosts and GPUs as NCCL does", () => {
    expect(classOf({ "eu-1/a": 0x0f, "eu-1/b": 0x03 })).toMatchObject({ nodes: 2, ranks: 6 });
  });

  it("has a switch that reduces only where all hosts have it", () => {
    expect(classOf({ "eu-1/h": 0xff, "eu-1/i": 0xff }).hasNvlinkSharp).toBe(true);
    expect(classOf({ "eu-1/h": 0xff, "eu-1/a": 0xff }).hasNvlinkSharp).toBe(false);
    expect(classOf({ "eu-1/h": 1 }).hasNvlinkSharp).toBe(true);
    expect(classOf({ "eu-1/mig": 1 }).hasNvlinkSharp).toBe(false);
  });
});
