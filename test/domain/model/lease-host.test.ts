/** @file The GPUs of a lease as the inference planner sees them: speeds and memory of the fleet file, buses and links of the matrix. */

import { describe, expect, it } from "vitest";
import { parseNvidiaSmiTopo } from "../../../domain/bandwidth/parse-nvidia-smi.ts";
import type { HostShape } from "../../../domain/fleet/fleet.ts";
import { leaseHost } from "../../../domain/model/lease-host.ts";
import { parseHostId } from "../../../domain/values/ids.ts";
import { gib, watts } from "../../../domain/values/units.ts";

const shape: HostShape = {
  id: parseHostId("a/b"),
  gpuType: "A100-SXM4-40GB",
  gpuCount: 4,
  gpuMemoryGiB: gib(38),
  gpuWatts: watts(400),
};

/** GPU0 and GPU1 behind one switch, GPU2 and GPU3 behind another; NVLink between all but GPU0 and GPU3. */
const MATRIX = `\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1
GPU0\t X \tPIX\tNV4\tSYS\tPIX\tSYS
GPU1\tPIX\t X \tNV4\tNV4\tPIX\tSYS
GPU2\tNV4\tNV4\t X \tNV4\tSYS\tPXB
GPU3\tSYS\tNV4\tNV4\t X \tSYS\tPXB
NIC0\tPIX\tPIX\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tPXB\tPXB\tSYS\t X
`;

function hostOf(mask: number, matrix?: string, of: HostShape = shape) {
  const read = matrix === undefined ? undefined : parseNvidiaSmiTopo(matrix, { source: "topo" });
  if (read?.kind === "refused") throw new Error("the matrix is refused");
  const lease = leaseHost(of, { mask, ...(read && { topology: read.topology }) });
  if (lease.kind === "unknown") throw new Error(lease.message);
  return lease;
}

describe("the host of a lease", () => {
  it("has the lease's GPUs alone, with the memory that the fleet file gives them", () => {
    const { host, assumed } = hostOf(0b1010, MATRIX);
    expect(host.gpus.map(({ name }) => name)).toEqual(["GPU1", "GPU3"]);
    expect(host.gpus.map(({ device }) => [device.kind, device.memoryGiB])).toEqual([
      ["A100", 38],
      ["A100", 38],
    ]);
    expect(assumed).toEqual([]);
  });

  it.each([
    [0b1111, [0, 0, 1, 1], 2],
    [0b1100, [0, 0], 1],
    [0b0110, [0, 1], 2],
    [0b1000, [0], 1],
  ])("shares buses as the matrix says: mask %i", (mask, busOf, buses) => {
    const { host } = hostOf(mask, MATRIX);
    expect(host.gpus.map(({ bus }) => bus)).toEqual(busOf);
    expect(host.buses).toHaveLength(buses);
  });

  it("joins GPUs as the matrix says", () => {
    const kinds = hostOf(0b1111, MATRIX).host.peers.map((row) => row.map(({ kind }) => kind));
    expect(kinds).toEqual([
      ["self", "pcie", "nvlink", "pcie"],
      ["pcie", "self", "nvlink", "nvlink"],
      ["nvlink", "nvlink", "self", "nvlink"],
      ["pcie", "nvlink", "nvlink", "self"],
    ]);
  });

  it("has a bus for each GPU and no direct path where nothing is known, and says so", () => {
    const { host, assumed } = hostOf(0b0011);
    expect(host.gpus.map(({ bus }) => bus)).toEqual([0, 1]);
    expect(host.peers[0]?.[1]).toEqual({ kind: "staged" });
    expect(assumed).toEqual(["a PCIe bus for each GPU", "no NVLink"]);
  });

  it("takes NVLink domains for what they are where there is no matrix", () => {
    const { host } = hostOf(0b0111, undefined, { ...shape, nvlinkDomains: [0b0011, 0b1100] });
    expect(host.peers.map((row) => row.map(({ kind }) => kind))).toEqual([
      ["self", "nvlink", "staged"],
      ["nvlink", "self", "staged"],
      ["staged", "staged", "self"],
    ]);
  });

  it("ignores a matrix of fewer GPUs than the host has", () => {
    const { host } = hostOf(0b1001, "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n");
    expect(host.buses).toHaveLength(2);
  });

  it("is unknown where the speed of the GPUs is", () => {
    expect(leaseHost({ ...shape, gpuType: "X9" }, { mask: 1 })).toMatchObject({
      kind: "unknown",
      message: expect.stringMatching(/GPU type X9 is not known \(known: V100, A6000/),
    });
  });
});
