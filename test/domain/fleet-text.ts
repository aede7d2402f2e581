/** @file A small right fleet and short readings of what the parser says, for the tests of fleet files. */

import { formatProblem } from "../../domain/values/file-problem.ts";
import { parseFleetYaml, type FleetFile, type FleetFiles } from "../../domain/fleet/fleet-file.ts";
import { fleetYaml } from "../../domain/fleet/fleet-yaml.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";

/** Two clusters, one link, one tenant. */
export const SMALL_FLEET: FleetFile = {
  name: "small",
  clusters: [
    {
      name: "eu",
      site: "frankfurt",
      jurisdiction: "EU",
      hosts: [{ name: "h[1-2]", gpus: 4, type: "H100" }],
    },
    {
      name: "us",
      site: "iowa",
      jurisdiction: "US",
      hosts: [{ name: "n1", gpus: 8, type: "A100-80" }],
    },
  ],
  links: [{ between: ["eu", "us"], bandwidth: "5 Gbps", latency: "90ms" }],
  tenants: [{ name: "research" }],
};

/** Texts by the path that the fleet file uses. */
export type Texts = Readonly<Record<string, string>>;

export function parseText(text: string, texts: Texts = {}, file = "fleet.yaml") {
  const read: FleetFiles["read"] = (path) => {
    const found = new Map(Object.entries(texts)).get(path);
    return found === undefined
      ? { kind: "missing", reason: "does not exist" }
      : { kind: "text", text: found };
  };
  return parseFleetYaml(text, { file, read });
}

export const parseFile = (file: unknown, texts: Texts = {}) =>
  parseText(JSON.stringify(file, null, 1), texts);

export function fleetOf(file: FleetFile, texts: Texts = {}): Fleet {
  const parsed = parseText(fleetYaml(file), texts);
  if (parsed.kind === "refused") throw new Error(parsed.problems.map(formatProblem).join("\n"));
  return parsed.fleet;
}

/** `path: message; remedy` of each problem, without its place. */
export function problemsOf(file: unknown, texts: Texts = {}): string[] {
  const parsed = parseFile(file, texts);
  if (parsed.kind === "parsed") return [];
  return parsed.problems.map(({ path, message, remedy }) =>
    formatProblem({ path, value: "", message, remedy }),
  );
}

export function yamlProblems(text: string, texts: Texts = {}, file = "fleet.yaml"): string[] {
  const parsed = parseText(text, texts, file);
  return parsed.kind === "refused" ? parsed.problems.map(formatProblem) : [];
}

/** The matrix of `nvidia-smi topo -m` for GPUs that are all joined by NVLink. */
export function topologyText(gpuCount: number): string {
  const gpus = Array.from({ length: gpuCount }, (_, gpu) => gpu);
  const rows = gpus.map((a) =>
    [`GPU${a}`, ...gpus.map((b) => (a === b ? "X" : "NV18"))].join("\t"),
  );
  return [`\t${gpus.map((gpu) => `GPU${gpu}`).join("\t")}`, ...rows, ""].join("\n");
}

/** All masks of hosts with two GPUs each, in BandPilot's form. */
export function bandwidthText(hosts: readonly string[]): string {
  const rows = hosts.flatMap((host, index) => [
    `${host},1,0,1,0.0`,
    `${host},2,1,1,0.0`,
    `${host},3,0+1,2,${200 + index}`,
  ]);
  return ["host,mask,gpus,n_gpus,bandwidth_gbs", ...rows, ""].join("\n");
}
