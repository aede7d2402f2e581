/**
 * @file Reads NCCL's topology XML (`NCCL_TOPO_FILE`, or what `NCCL_TOPO_DUMP_FILE` wrote) into a host topology.
 *
 * A tree of CPUs, PCIe switches and devices. Two devices are as far apart as the tree says: one switch between them is PIX,
 * several are PXB, one CPU is PHB, two CPUs are SYS. NVLinks are those that the GPUs list: to each other, or to switches,
 * which join all GPUs that have them by the fewest lanes of both. Devices are told by their PCI class. GPUs are numbered as NCCL
 * numbers them (`dev`) where it has numbered all, else by bus id, as the driver does. Clouds' files for virtual machines list no NVLinks.
 */

import { byCodeUnit } from "../values/ids.ts";
import { parseXml, type XmlElement } from "../file/xml-elements.ts";
import { refuse, type Problem } from "../values/problem.ts";
import { refuseBySize } from "../values/text-lines.ts";
import { shown } from "../values/file-problem.ts";
import type { HostTopology, LinkKind, Nic, PciPath } from "../values/topology.ts";
import type { ParsedTopology } from "./parse-nvidia-smi.ts";

const MAX_CHARS = 2 ** 20;
const MAX_DEVICES = 256;
/** PCI classes: display and 3D controllers; network controllers; bridges, NVSwitches among them. */
const GPU_CLASS = /^0x03/i;
const NIC_CLASS = /^0x02/i;
const BRIDGE_CLASS = /^0x06/i;
const NVSWITCH_CLASS = /^0x068000$/i;

interface Device {
  readonly element: XmlElement;
  readonly busId: string;
  readonly cpu: XmlElement;
  /** The PCIe switches above it, outermost first. */
  readonly bridges: readonly XmlElement[];
}

export function parseNcclTopology(
  text: string,
  { source }: { readonly source: string },
): ParsedTopology {
  const bySize = refuseBySize(text, source, {
    what: "a topology file of NCCL",
    maxChars: MAX_CHARS,
  });
  if (bySize !== undefined) return bySize;
  const parsed = parseXml(text.replace(/^\ufeff/, ""));
  if (parsed.kind === "refused") return refuse(source, [parsed.problem]);
  const { root } = parsed;
  if (root.name !== "system") {
    const message = `the document is <${shown(root.name)}>, not <system>`;
    const remedy = "give a topology file of NCCL, as NCCL_TOPO_DUMP_FILE writes it";
    return refuse(source, [{ line: root.line, message, remedy }]);
  }
  const problems: Problem[] = [];
  const other = secondHost(root);
  if (other !== undefined) problems.push(other);
  const found = devicesOf(root, problems);
  const gpus = numbered(found.gpus, problems);
  if (gpus.length === 0 && problems.length === 0) {
    problems.push({
      line: root.line,
      message: "no element is a GPU (PCI class 0x0302… or 0x0300…)",
      remedy: "dump the topology on a host with GPUs: NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf",
    });
  }
  if (gpus.length + found.nics.length > MAX_DEVICES) {
    const message = `${gpus.length + found.nics.length} devices; a host has at most ${MAX_DEVICES}`;
    problems.push({ line: root.line, message, remedy: "give the file of one host" });
  }
  if (problems.length > 0) return refuse(source, problems);
  const lanes = nvlinkTable(gpus, problems);
  if (problems.length > 0) return refuse(source, problems);
  const links = gpus.map((from, a) => gpus.map((to, b) => linkOf(from, to, lanes[a]?.[b] ?? 0)));
  const topology: HostTopology = {
    gpuCount: gpus.length,
    links,
    gpus: gpus.map(({ cpu }) => affinityOf(cpu)),
    nics: found.nics.map((nic, index) => nicOf(nic, index, gpus)),
  };
  return { kind: "parsed", topology };
}

/** Fused dumps of hosts that share NVLink name the host of each CPU. */
function secondHost(root: XmlElement): Problem | undefined {
  const hashes = root.children.map((cpu) => cpu.attributes.get("host_hash"));
  const at = hashes.findIndex((hash) => hash !== undefined && hash !== hashes[0]);
  const cpu = root.children[at];
  if (cpu === undefined) return undefined;
  return {
    line: cpu.line,
    message: `a CPU of another host begins here (host_hash ${shown(hashes[at] ?? "")})`,
    remedy: "dump the topology of one host at a time: run on that host alone",
  };
}

function devicesOf(root: XmlElement, problems: Problem[]): { gpus: Device[]; nics: Device[] } {
  const gpus: Device[] = [];
  const nics: Device[] = [];
  const busIds = new Map<string, number>();
  const walk = (element: XmlElement, cpu: XmlElement, bridges: readonly XmlElement[]): void => {
    for (const child of element.children) {
      // A network without a card of its own, such as a virtual one, hangs at its CPU.
      if (child.name === "nic") nics.push({ element: element, busId: "virtual", cpu, bridges });
      if (child.name !== "pci") continue;
      const busId = child.attributes.get("busid")?.toLowerCase();
      const deviceClass = child.attributes.get("class") ?? "";
      if (busId === undefined || !/^(0x)?[\da-f]{2,8}:[\da-f:.]+$/.test(busId)) {
        const message = `a pci element has busid ${busId === undefined ? "none" : shown(busId)}`;
        problems.push({ line: child.line, message, remedy: 'write it as in busid="0000:3b:00.0"' });
        continue;
      }
      const former = busIds.get(busId);
      if (former !== undefined) {
        const message = `busid ${busId} stands in line ${former}, too`;
        problems.push({ line: child.line, message, remedy: "a device stands in the file once" });
        continue;
      }
      busIds.set(busId, child.line);
      const device = { element: child, busId, cpu, bridges };
      const has = (name: string): boolean => child.children.some((each) => each.name === name);
      if (has("gpu") || (GPU_CLASS.test(deviceClass) && !has("pci"))) gpus.push(device);
      else if (has("nic") || NIC_CLASS.test(deviceClass)) nics.push(device);
      else if (has("pci") || BRIDGE_CLASS.test(deviceClass)) walk(child, cpu, [...bridges, child]);
      else if (deviceClass === "") {
        const message = `device ${busId} has no class`;
        problems.push({ line: child.line, message, remedy: 'write it as in class="0x030200"' });
      }
    }
  };
  for (const child of root.children) if (child.name === "cpu") walk(child, child, []);
  return { gpus, nics };
}

const gpuElement = ({ element }: Device): XmlElement | undefined =>
  element.children.find(({ name }) => name === "gpu");

/** By `dev` when all have one, else by bus id. */
function numbered(gpus: readonly Device[], problems: Problem[]): readonly Device[] {
  const byBus = [...gpus].sort((a, b) => byCodeUnit(a.busId, b.busId));
  const numbers = byBus.map((gpu) => gpuElement(gpu)?.attributes.get("dev"));
  if (numbers.some((number) => number === undefined)) return byBus;
  const places = byBus.map((gpu, at) => ({ gpu, dev: Number(numbers[at]) }));
  places.sort((a, b) => a.dev - b.dev);
  const wrong = places.findIndex(({ dev }, at) => dev !== at);
  const found = places[wrong];
  if (found !== undefined) {
    problems.push({
      line: gpuElement(found.gpu)?.line ?? found.gpu.element.line,
      message: `GPUs are numbered ${places.map(({ dev }) => dev).join(", ")}; ${wrong} is missing`,
      remedy: "dump the topology with all GPUs of the host visible (no CUDA_VISIBLE_DEVICES)",
    });
  }
  return places.map(({ gpu }) => gpu);
}

/** NVLinks between each two GPUs. */
function nvlinkTable(gpus: readonly Device[], problems: Problem[]): readonly (readonly number[])[] {
  const index = new Map(gpus.map(({ busId }, at) => [busId, at]));
  const table = gpus.map(() => gpus.map(() => 0));
  const toSwitches = gpus.map(() => 0);
  for (const [at, gpu] of gpus.entries()) {
    for (const link of gpuElement(gpu)?.children ?? []) {
      if (link.name !== "nvlink") continue;
      const count = Number(link.attributes.get("count") ?? "1");
      if (!Number.isSafeInteger(count) || count < 1 || count > 64) {
        const message = `an nvlink of GPU${at} has count ${shown(link.attributes.get("count") ?? "")}`;
        problems.push({ line: link.line, message, remedy: "a count of links is 1 to 64" });
        continue;
      }
      const to = index.get(link.attributes.get("target")?.toLowerCase() ?? "");
      const row = table[at];
      if (to !== undefined && to !== at && row !== undefined) row[to] = (row[to] ?? 0) + count;
      else if (NVSWITCH_CLASS.test(link.attributes.get("tclass") ?? ""))
        toSwitches[at] = (toSwitches[at] ?? 0) + count;
    }
  }
  return table.map((row, a) =>
    row.map((direct, b) => {
      if (a === b) return 0;
      const both = Math.max(direct, table[b]?.[a] ?? 0);
      return both > 0 ? both : Math.min(toSwitches[a] ?? 0, toSwitches[b] ?? 0);
    }),
  );
}

function linkOf(from: Device, to: Device, lanes: number): LinkKind {
  if (from === to) return "self";
  return lanes > 0 ? { kind: "nvlink", lanes } : pathOf(from, to);
}

function pathOf(from: Device, to: Device): PciPath {
  if (from.cpu !== to.cpu) return "sys";
  let shared = 0;
  while (shared < from.bridges.length && from.bridges[shared] === to.bridges[shared]) shared += 1;
  if (shared === 0) return "phb";
  // The last shared switch, and those below it on both sides.
  return from.bridges.length + to.bridges.length - 2 * shared === 0 ? "pix" : "pxb";
}

function nicOf(nic: Device, index: number, gpus: readonly Device[]): Nic {
  const named = nic.element.children
    .flatMap(({ children }) => children)
    .find(({ name }) => name === "net");
  const label = `NIC${index}`;
  const device = named?.attributes.get("name") ?? nic.busId;
  return { label, device, gpuLinks: gpus.map((gpu) => pathOf(gpu, nic)) };
}

function affinityOf(cpu: XmlElement): HostTopology["gpus"][number] {
  const numa = Number(cpu.attributes.get("numaid") ?? "-1");
  const cores = coresOf(cpu.attributes.get("affinity") ?? "");
  return {
    ...(cores !== "" && { cpuAffinity: cores }),
    ...(Number.isSafeInteger(numa) && numa >= 0 && { numaNode: numa }),
  };
}

/** Ranges of cores from a mask of the kernel: words of 32 bits in hexadecimal, the highest first. */
function coresOf(mask: string): string {
  const digits = mask
    .split(",")
    .map((word) => word.padStart(8, "0"))
    .join("");
  if (!/^[\da-f]{1,512}$/i.test(digits)) return "";
  const ranges: string[] = [];
  let first = -1;
  for (let core = 0; core <= digits.length * 4; core += 1) {
    const digit = Number.parseInt(digits[digits.length - 1 - (core >> 2)] ?? "0", 16);
    const isIn = ((digit >> (core & 3)) & 1) === 1;
    if (isIn && first === -1) first = core;
    if (isIn || first === -1) continue;
    ranges.push(first === core - 1 ? `${first}` : `${first}-${core - 1}`);
    first = -1;
  }
  return ranges.join(",");
}
