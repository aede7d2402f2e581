/**
 * @file Machine lists that come with the traces, as hosts: openb nodes, Philly machines, PAI machines, spot nodes.
 *
 * Columns by name: the machine (`sn`, `machineId`, `machine`, `node_name`), its GPUs (`gpu`, `number of GPUs`, `cap_gpu`, `gpu_capacity_num`), their type
 * (`model`, `gpu_type`, `gpu_model`; `unknown` without one). Machines without GPUs are left out and counted; more than 30 GPUs on one host, or a
 * name that is there twice, is a bad row. CPU and memory are not read; nothing says how machines are wired.
 */

import { gpuTypeName } from "../../domain/values/gpu-types.ts";
import { refuse, type Problem, type Refused } from "../../domain/values/problem.ts";
import { headerOf, plainWord, readTable, wholeGpus } from "./table.ts";
import type { TraceAccount, TraceName } from "./trace.ts";

export interface NodeRow {
  readonly name: string;
  readonly gpus: number;
  readonly gpuType: string;
}

export interface NodeList {
  readonly kind: "nodes";
  readonly nodes: readonly NodeRow[];
  readonly account: TraceAccount;
}

const NEEDED = {
  name: ["sn", "machineid", "machine", "node_name"],
  gpus: ["gpu", "number of gpus", "cap_gpu", "gpu_capacity_num"],
};
const OPTIONAL = { type: ["model", "gpu_type", "gpu_model"] };

/** GPU sets of a host are bit masks. */
const MAX_GPUS_OF_A_HOST = 30;

export const looksLikeNodes = (text: string): boolean => {
  const header = headerOf(text);
  return Object.values(NEEDED).every((names) => names.some((name) => header.includes(name)));
};

export function readNodes(text: string, { source }: TraceName): NodeList | Refused {
  const table = readTable(text, source, { needed: NEEDED, optional: OPTIONAL });
  if (table.kind === "refused") return table;
  const badRows: Problem[] = [...table.badRows];
  const nodes: NodeRow[] = [];
  const seen = new Set<string>();
  let withoutGpu = 0;
  for (const { line, cell } of table.rows) {
    const gpus = wholeGpus(line, cell("gpus"), 0);
    const name = plainWord(cell("name"), `line-${String(line)}`);
    if (typeof gpus !== "number") badRows.push(gpus);
    else if (gpus === 0) withoutGpu += 1;
    else if (gpus > MAX_GPUS_OF_A_HOST) {
      const message = `machine ${name} has ${String(gpus)} GPUs`;
      badRows.push({ line, message, remedy: `at most ${String(MAX_GPUS_OF_A_HOST)} are possible` });
    } else if (seen.has(name)) {
      badRows.push({
        line,
        message: `machine ${name} is there twice`,
        remedy: "leave one of them",
      });
    } else {
      seen.add(name);
      nodes.push({ name, gpus, gpuType: gpuTypeName(plainWord(cell("type"), "unknown")) });
    }
  }
  if (nodes.length === 0) {
    const none = { line: 1, message: "no machine has a GPU", remedy: "give at least one" };
    return refuse(source, badRows.length > 0 ? badRows : [none]);
  }
  badRows.sort((a, b) => a.line - b.line);
  const rows = nodes.length + withoutGpu + badRows.length;
  const leftOut = withoutGpu === 0 ? [] : [{ what: "machines without a GPU", count: withoutGpu }];
  return { kind: "nodes", nodes, account: { rows, badRows, leftOut, notes: [] } };
}
