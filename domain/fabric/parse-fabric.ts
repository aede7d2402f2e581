/** @file Reads a file about the network between hosts in any of the forms that operators have, which it tells apart by their lines. */

import { cleanLines } from "../values/text-lines.ts";
import { refuse } from "../values/problem.ts";
import type { ParsedFabric } from "./fabric-hosts.ts";
import { isIbnetdiscover, parseIbnetdiscover } from "./parse-ibnetdiscover.ts";
import { isNvidiaSmiQuery, isOfOneHost, parseNvlinkFabric } from "./parse-nvlink-fabric.ts";
import { isTopologyConf, parseTopologyConf } from "./parse-slurm-topology.ts";
import { isTopologyYaml, parseTopologyYaml } from "./parse-slurm-topology-yaml.ts";

/** Whether the text is of one host that it does not name. */
export const needsHostName = (text: string): boolean => isOfOneHost(cleanLines(text));

/** `host` is the name of the host whose `nvidia-smi -q` the text is; other forms name their hosts. */
export function parseFabric(
  text: string,
  place: { readonly source: string; readonly host: string },
): ParsedFabric {
  const lines = cleanLines(text);
  if (isNvidiaSmiQuery(lines)) return parseNvlinkFabric(text, place);
  if (isIbnetdiscover(lines)) return parseIbnetdiscover(text, place);
  if (isTopologyConf(lines)) return parseTopologyConf(text, place);
  if (isTopologyYaml(lines)) return parseTopologyYaml(text, place);
  const isMatrix = lines.some((line) => /^\s*GPU0\s.*\bX\b/.test(line));
  const message = "the text has none of the forms that are read";
  const remedy = isMatrix
    ? "this is nvidia-smi topo -m: give it with --topology"
    : "give the output of ibnetdiscover, Slurm's topology.conf or topology.yaml, or nvidia-smi -q of each host";
  return refuse(place.source, [{ line: 1, message, remedy }]);
}
