/**
 * @file Writes a policy in the CSV form that NVIDIA's example tuner plugin reads: the exploited arms, one line a row.
 *
 * Fields: collective_type, min_bytes, max_bytes, algorithm, protocol, channels, nNodes, nRanks; −1 channels leaves NCCL's choice. That plugin
 * cannot explore and has no word for AUTO: rows on AUTO are left out and named in a comment (it then falls back to its own default). It takes
 * the first line that fits; its own examples end at 4294967295 bytes, but it reads 64 bits. Source: NVIDIA/nccl, ext-tuner/example.
 */

import type { Arm } from "../domain/bandwidth/collective-arm.ts";
import type { Policy, PolicyRow, PolicySection } from "./policy.ts";

const HEADER = "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks";

export function ncclCsv({ version, sections }: Policy): string {
  const lines = sections.flatMap((section) => [
    `# ${section.topology}`,
    ...section.rows.map((row) => csvLine(row, section)),
  ]);
  return [`# orbweaver policy ${String(version)}`, HEADER, ...lines, ""].join("\n");
}

function csvLine(
  { collective, minBytes, maxBytes, arm }: PolicyRow,
  { nodes, ranks }: PolicySection,
): string {
  const range = `${collective},${String(minBytes)},${String(maxBytes)}`;
  if (arm === "auto") return `# ${range}: NCCL's own choice`;
  const [algorithm, protocol] = partsOf(arm);
  return [range, algorithm, protocol, -1, nodes, ranks].join(",");
}

function partsOf(arm: Arm): readonly [algorithm: string, protocol: string] {
  const slash = arm.indexOf("/");
  return [arm.slice(0, slash), arm.slice(slash + 1)];
}
