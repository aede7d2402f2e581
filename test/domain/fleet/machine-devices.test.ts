import { describe, expect, it } from "vitest";
import { differenceText, machineDifferences } from "../../../domain/fleet/machine-differences.ts";
import { parseDeviceQuery, type MachineGpu } from "../../../domain/fleet/parse-device-query.ts";
import { deviceQuery, NV4_PAIR } from "../../support/stand-in-nvidia-smi.ts";

describe("the answer of nvidia-smi -q -x", () => {
  it("names each GPU with its type, UUID, address, memory, power and instances", () => {
    const gpus = parseDeviceQuery(
      deviceQuery([
        { device: "NVIDIA H100 80GB HBM3", instances: 2 },
        { device: "NVIDIA TITAN Q &amp; co", memory: "N/A", watts: "N/A" },
      ]),
    );
    expect(gpus).toEqual([
      {
        device: "NVIDIA H100 80GB HBM3",
        type: "H100",
        uuid: "GPU-00000000-1111-2222-3333-444444444444",
        busId: "00000000:18:00.0",
        memoryMiB: 81_559,
        watts: 700,
        instances: [
          { index: 0, gpuInstance: 7, computeInstance: 0 },
          { index: 1, gpuInstance: 8, computeInstance: 0 },
        ],
      },
      {
        device: "NVIDIA TITAN Q & co",
        uuid: "GPU-00000001-1111-2222-3333-444444444444",
        busId: "00000000:28:00.0",
        instances: [],
      },
    ]);
  });

  it("is empty without GPUs, and another text is no answer", () => {
    expect(parseDeviceQuery(deviceQuery([]))).toEqual([]);
    expect(parseDeviceQuery("NVIDIA H100, 81559, 700")).toBeUndefined();
  });
});

const gpu = (type?: string): MachineGpu => ({ device: "x", instances: [], ...(type && { type }) });
const host = { gpuCount: 2, gpuType: "H100", nvlinkDomains: [0b11] };

describe("a machine differs from its host's description", () => {
  it.each<[string, Parameters<typeof machineDifferences>[1], readonly string[]]>([
    ["in nothing", { gpus: [gpu("H100"), gpu("H100")], topology: NV4_PAIR }, []],
    ["in nothing, where PCI says no type", { gpus: [gpu(), gpu()] }, []],
    ["in GPUs that are missing", { gpus: [gpu("H100")] }, ["missing:1"]],
    ["in all of them", { gpus: [] }, ["missing:2"]],
    ["in GPUs too many", { gpus: [gpu("H100"), gpu("H100"), gpu("H100")] }, ["extra:1"]],
    ["in their type", { gpus: [gpu("H100"), gpu("A100-40")] }, ["type:A100-40"]],
    [
      "in a link that fell",
      {
        gpus: [gpu("H100"), gpu("H100")],
        topology: NV4_PAIR.replaceAll("NV4", "SYS"),
      },
      ["nvlink"],
    ],
    ["in no link, where the links cannot be read", { gpus: [gpu(), gpu()], topology: "?" }, []],
  ])("%s", (_, shown, want) => {
    expect(machineDifferences(host, shown)).toEqual(want);
  });

  it("where MIG has divided a GPU, in its instances", () => {
    const instances = [0, 1].map((index) => ({
      ...{ index, gpuInstance: index, computeInstance: 0 },
      profile: "3g.40gb",
    }));
    const gpus = [{ ...gpu("H100"), instances }];
    expect(machineDifferences(host, { gpus })).toEqual(["type:H100:3g.40gb"]);
    expect(machineDifferences({ gpuCount: 3, gpuType: "H100:3g.40gb" }, { gpus })).toEqual([
      "missing:1",
    ]);
    expect(differenceText("type:H100:3g.40gb")).toBe("it shows H100:3g.40gb");
  });

  it("in words for people", () => {
    expect(["missing:1", "extra:2", "type:A100-40", "nvlink"].map(differenceText)).toEqual([
      "1 GPU is missing",
      "2 GPUs are not in the fleet file",
      "it shows A100-40",
      "NVLink joins other sets of GPUs",
    ]);
  });
});
