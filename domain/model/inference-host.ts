/**
 * @file One server for the inference planner: GPUs with their speeds, the PCIe buses out of host memory with the GPUs that share
 * them, and the direct paths between GPUs. Read from a host file (YAML or JSON), or made from `nvidia-smi topo -m`.
 *
 * A *bus* is a PCIe link that leaves the processor (SortingHat, footnote 1): GPUs behind one switch share theirs. Two GPUs are
 * joined by NVLink or an NVSwitch, or reach each other over their two buses (peer-to-peer), or only through host memory.
 */

import { z } from "zod";
import { refuseFile, type RefusedFile } from "../values/file-problem.ts";
import { knownDevice, KNOWN_DEVICES, type InferenceDevice } from "./inference-device.ts";
import { jsonSchemaOf } from "../file/json-schema.ts";
import { readLocatedYaml } from "../file/located-yaml.ts";
import { asFileProblem, schemaProblems, type SchemaProblem } from "../file/schema-problems.ts";
import { nvlinkLanes, type HostTopology } from "../values/topology.ts";

export interface InferenceGpu {
  readonly name: string;
  readonly device: InferenceDevice;
  /** Factor on the device's kernel times: 11.1 for a clock of 135 instead of 1500 MHz. */
  readonly slowdown: number;
  /** Index of its bus. */
  readonly bus: number;
}

export interface InferenceBus {
  readonly name: string;
  /** Pinned host memory to one GPU, 10^9 bytes a second as measured, not by the standard. */
  readonly busGBs: number;
}

/** How two GPUs reach each other; `staged` copies go to host memory and back. */
export type PeerWay =
  | { readonly kind: "self" }
  | { readonly kind: "nvlink"; readonly peerGBs: number }
  /** The speed of a GPU's port into the switch, which all its copies in one direction share. */
  | { readonly kind: "nvswitch"; readonly peerGBs: number }
  | { readonly kind: "pcie"; readonly peerGBs: number }
  | { readonly kind: "staged" };

export interface InferenceHost {
  readonly name: string;
  readonly gpus: readonly InferenceGpu[];
  readonly buses: readonly InferenceBus[];
  /** `peers[a][b]`: the path from GPU a to GPU b, symmetric. */
  readonly peers: readonly (readonly PeerWay[])[];
  /** Time to start one copy, microseconds. */
  readonly copyUs: number;
  /** Host memory for pinned parameters; unknown when absent. */
  readonly hostMemoryGiB?: number;
}

export type ParsedHost = { readonly kind: "parsed"; readonly host: InferenceHost } | RefusedFile;

/** An asynchronous copy between devices, from the call to the first byte, microseconds. */
const DEFAULT_COPY_US = 10;

const name = z.string().min(1).max(64);
const positive = z.number().positive().finite();
const share = z.number().positive().max(1);

const hostSchema = z.strictObject({
  name,
  /** Speeds of unknown kinds, or overrides of known ones. */
  devices: z
    .record(
      name,
      z.strictObject({
        peakTflops: positive,
        /** Of products of 16-bit numbers; absent: peakTflops. */
        halfTflops: positive.optional(),
        gemmShare: share.default(0.9),
        memoryGBs: positive,
        memoryShare: share.default(0.8),
        launchUs: z.number().nonnegative().finite().default(5),
        memoryGiB: positive,
      }),
    )
    .default({}),
  buses: z
    .array(z.strictObject({ name, busGBs: positive }))
    .min(1)
    .max(64),
  gpus: z
    .array(
      z.strictObject({
        name,
        device: name,
        bus: name,
        slowdown: positive.default(1),
        memoryGiB: positive.optional(),
      }),
    )
    .min(1)
    .max(64),
  nvlinks: z
    .array(z.strictObject({ between: z.array(name).length(2), peerGBs: positive }))
    .default([]),
  /** Joins every pair that `nvlinks` does not name over an NVSwitch. */
  nvswitchGBs: positive.optional(),
  /** Peer-to-peer copies over PCIe for the pairs without NVLink; absent: through host memory. */
  pciePeerGBs: positive.optional(),
  copyUs: z.number().nonnegative().finite().default(DEFAULT_COPY_US),
  /** Memory of the host, in which all parameters lie; absent: enough. */
  hostMemoryGiB: positive.optional(),
});

type HostFile = z.infer<typeof hostSchema>;
const HOST_JSON_SCHEMA = jsonSchemaOf(hostSchema);

export function parseInferenceHost(text: string, { file }: { readonly file: string }): ParsedHost {
  const yaml = readLocatedYaml(text, file);
  if (!yaml.isSound) return refuseFile(yaml.problems);
  const result = hostSchema.safeParse(yaml.value);
  const problems = result.success
    ? ruleProblems(result.data)
    : schemaProblems(result.error.issues, { value: yaml.value, schema: HOST_JSON_SCHEMA });
  if (!result.success || problems.length + yaml.problems.length > 0)
    return refuseFile([
      ...yaml.problems,
      ...problems.map((problem) => asFileProblem(problem, { file, yaml })),
    ]);
  return { kind: "parsed", host: hostOf(result.data) };
}

/** GPUs behind one PCIe switch share a bus; peers without NVLink talk over PCIe. Speeds are those of the named kind. */
export function hostFromTopology(
  topology: HostTopology,
  { name: called, device }: { readonly name: string; readonly device: InferenceDevice },
): InferenceHost {
  const busOf: number[] = [];
  const buses: InferenceBus[] = [];
  const busGBs = PCIE_GBS.get(device.kind) ?? 12;
  for (let gpu = 0; gpu < topology.gpuCount; gpu += 1) {
    const neighbour = busOf.findIndex((_, other) => {
      const way = topology.links[gpu]?.[other];
      return way === "pix" || way === "pxb";
    });
    // The matrix does not show the PCIe path of two GPUs with NVLink; a network card near both shows that they share a switch.
    const shared = neighbour >= 0 ? neighbour : nearSameCard(topology, gpu);
    const bus = shared === undefined ? buses.length : (busOf[shared] ?? 0);
    if (bus === buses.length) buses.push({ name: `bus${bus}`, busGBs });
    busOf.push(bus);
  }
  const laneGBs = NVLINK_LANE_GBS.get(device.kind) ?? 24;
  const gpus = busOf.map((bus, index) => ({ name: `GPU${index}`, device, slowdown: 1, bus }));
  const peers = gpus.map((_, a) =>
    gpus.map((__, b): PeerWay => {
      if (a === b) return { kind: "self" };
      const lanes = nvlinkLanes(topology, a, b);
      return lanes > 0
        ? { kind: "nvlink", peerGBs: lanes * laneGBs }
        : { kind: "pcie", peerGBs: busGBs * PCIE_PEER_SHARE };
    }),
  );
  return { name: called, gpus, buses, peers, copyUs: DEFAULT_COPY_US };
}

/** An earlier GPU that reaches some network card as closely (`pix`, `pxb`) as this one does. */
function nearSameCard(topology: HostTopology, gpu: number): number | undefined {
  for (const { gpuLinks } of topology.nics) {
    if (gpuLinks[gpu] !== "pix" && gpuLinks[gpu] !== "pxb") continue;
    const other = gpuLinks.findIndex(
      (way, index) => index < gpu && (way === "pix" || way === "pxb"),
    );
    if (other >= 0) return other;
  }
  return undefined;
}

/** Pinned memory to device over 16 lanes: generation 3, 4, 5. */
const PCIE_GBS: ReadonlyMap<string, number> = new Map([
  ["V100", 12.2],
  ["A6000", 24.5],
  ["A100", 24.5],
  ["H100", 52],
]);
/** One NVLink, one way, as copies reach it. */
const NVLINK_LANE_GBS: ReadonlyMap<string, number> = new Map([
  ["V100", 24.2],
  ["A6000", 13.2],
  ["A100", 23],
  ["H100", 22],
]);
/** Peer-to-peer copies through the processor reach somewhat less than copies out of its memory. */
const PCIE_PEER_SHARE = 0.8;

function ruleProblems(file: HostFile): SchemaProblem[] {
  const problems: SchemaProblem[] = [];
  const note = (path: readonly (string | number)[], value: unknown, remedy: string): void => {
    problems.push({
      path,
      part: "value",
      value,
      message: `${JSON.stringify(value)} names nothing in this file, or something twice`,
      remedy,
    });
  };
  const gpuNames = file.gpus.map((gpu) => gpu.name);
  const busNames = file.buses.map((bus) => bus.name);
  const kinds = [...Object.keys(file.devices), ...KNOWN_DEVICES.map(({ kind }) => kind)];
  for (const [index, gpu] of file.gpus.entries()) {
    if (gpuNames.indexOf(gpu.name) !== index)
      note(["gpus", index, "name"], gpu.name, "give each GPU a name of its own");
    if (!busNames.includes(gpu.bus))
      note(["gpus", index, "bus"], gpu.bus, `the buses are ${busNames.join(", ")}`);
    if (!Object.hasOwn(file.devices, gpu.device) && knownDevice(gpu.device) === undefined)
      note(
        ["gpus", index, "device"],
        gpu.device,
        `list it under devices; known: ${kinds.join(", ")}`,
      );
  }
  for (const [index, bus] of busNames.entries()) {
    if (busNames.indexOf(bus) !== index)
      note(["buses", index, "name"], bus, "give each bus a name of its own");
  }
  for (const [index, { between }] of file.nvlinks.entries()) {
    for (const [end, gpu] of between.entries()) {
      if (!gpuNames.includes(gpu) || between.indexOf(gpu) !== end)
        note(["nvlinks", index, "between", end], gpu, `name two of ${gpuNames.join(", ")}`);
    }
  }
  return problems;
}

function hostOf(file: HostFile): InferenceHost {
  const gpus = file.gpus.map((gpu): InferenceGpu => {
    const written = Object.hasOwn(file.devices, gpu.device) ? file.devices[gpu.device] : undefined;
    const known = written === undefined ? knownDevice(gpu.device) : deviceOf(gpu.device, written);
    if (known === undefined) throw new Error(`device ${gpu.device} was not checked`);
    return {
      name: gpu.name,
      device: gpu.memoryGiB === undefined ? known : { ...known, memoryGiB: gpu.memoryGiB },
      slowdown: gpu.slowdown,
      bus: file.buses.findIndex((bus) => bus.name === gpu.bus),
    };
  });
  const linkGBs = new Map<string, number>();
  for (const { between, peerGBs } of file.nvlinks) {
    const [a = "", b = ""] = between;
    linkGBs.set(`${a}\n${b}`, peerGBs);
    linkGBs.set(`${b}\n${a}`, peerGBs);
  }
  const peers = gpus.map((a) =>
    gpus.map((b): PeerWay => {
      if (a === b) return { kind: "self" };
      const nvlink = linkGBs.get(`${a.name}\n${b.name}`);
      if (nvlink !== undefined) return { kind: "nvlink", peerGBs: nvlink };
      if (file.nvswitchGBs !== undefined) return { kind: "nvswitch", peerGBs: file.nvswitchGBs };
      if (file.pciePeerGBs === undefined) return { kind: "staged" };
      return { kind: "pcie", peerGBs: file.pciePeerGBs };
    }),
  );
  const { name: called, buses, copyUs, hostMemoryGiB } = file;
  return {
    ...{ name: called, gpus, buses, peers, copyUs },
    ...(hostMemoryGiB !== undefined && { hostMemoryGiB }),
  };
}

const deviceOf = (
  kind: string,
  { halfTflops, ...written }: HostFile["devices"][string],
): InferenceDevice => ({ kind, ...written, ...(halfTflops !== undefined && { halfTflops }) });
