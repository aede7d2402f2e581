/** @file Host files, and hosts made from `nvidia-smi topo -m`. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { knownDevice } from "../../../domain/model/inference-device.ts";
import { hostFromTopology, parseInferenceHost } from "../../../domain/model/inference-host.ts";
import { parseNvidiaSmiTopo } from "../../../domain/bandwidth/parse-nvidia-smi.ts";

const HOSTS = join(import.meta.dirname, "../../../data/hosts");
const text = (name: string): string => readFileSync(join(HOSTS, name), "utf8");

const small = (change: (file: string) => string): string =>
  change(
    [
      "name: h",
      "buses: [{ name: a, busGBs: 12 }]",
      "gpus: [{ name: G0, device: V100, bus: a }, { name: G1, device: V100, bus: a }]",
      "nvlinks: [{ between: [G0, G1], peerGBs: 48 }]",
    ].join("\n"),
  );

describe("host files", () => {
  it("that come with the project are read, with the topology of the paper's figure 8", () => {
    for (const name of readdirSync(HOSTS).filter((each) => each.endsWith(".yaml")))
      expect(parseInferenceHost(text(name), { file: name }).kind).toBe("parsed");
    const parsed = parseInferenceHost(text("v100.yaml"), { file: "v100.yaml" });
    if (parsed.kind !== "parsed") throw new Error("refused");
    const { host } = parsed;
    expect(host.gpus.map(({ bus }) => bus)).toEqual([0, 0, 1, 1]);
    expect(host.peers[0]?.[3]).toEqual({ kind: "nvlink", peerGBs: 48.4 });
    expect(host.peers[1]?.[2]).toEqual({ kind: "nvlink", peerGBs: 48.4 });
    expect(host.peers[0]?.[1]).toEqual({ kind: "nvlink", peerGBs: 24.2 });
  });

  it.each([
    ["an unknown bus", (file: string) => file.replace("bus: a }]", "bus: b }]"), "gpus[1].bus"],
    ["an unknown device", (file: string) => file.replace("V100", "X9"), "gpus[0].device"],
    ["two GPUs of one name", (file: string) => file.replace("G1,", "G0,"), "gpus[1].name"],
    [
      "a link to nowhere",
      (file: string) => file.replace("[G0, G1]", "[G0, G7]"),
      "nvlinks[0].between[1]",
    ],
    ["no speed", (file: string) => file.replace("busGBs: 12", "busGBs: 0"), "buses[0].busGBs"],
    ["a word that is no key", (file: string) => `${file}\nbuss: []`, "buss"],
  ])("with %s are refused at their place", (_, change, wantPath) => {
    const parsed = parseInferenceHost(small(change), { file: "h.yaml" });
    if (parsed.kind === "parsed") throw new Error("taken");
    expect(parsed.problems.map(({ path }) => path)).toContain(wantPath);
    expect(parsed.problems.every(({ line, remedy }) => (line ?? 0) > 0 && remedy !== "")).toBe(
      true,
    );
  });
});

describe("a host from nvidia-smi topo -m", () => {
  it("has GPUs behind one switch on one bus, and NVLink where the matrix says so", () => {
    const matrix = [
      "        GPU0    GPU1    GPU2    GPU3",
      "GPU0     X      PIX     NV2     SYS",
      "GPU1    PIX      X      SYS     SYS",
      "GPU2    NV2     SYS      X      PXB",
      "GPU3    SYS     SYS     PXB      X ",
    ].join("\n");
    const parsed = parseNvidiaSmiTopo(matrix, { source: "topo" });
    const device = knownDevice("Tesla V100-SXM2-32GB");
    if (parsed.kind !== "parsed" || device === undefined) throw new Error("refused");
    const host = hostFromTopology(parsed.topology, { name: "topo", device });
    expect(host.gpus.map(({ bus }) => bus)).toEqual([0, 0, 1, 1]);
    expect(host.peers[0]?.[2]?.kind).toBe("nvlink");
    expect(host.peers[0]?.[1]?.kind).toBe("pcie");
  });
});
