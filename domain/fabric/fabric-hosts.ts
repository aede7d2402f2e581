/**
 * @file What a file about the network says of hosts: which of them are close.
 *
 * Orbweaver knows one level between host and cluster, the rack (`rack:` of a host). A rack here is the hosts behind one leaf switch, behind one
 * set of leaf switches (rails), or in one NVLink domain. Levels above leaf switches are not kept.
 */

import type { Refused } from "../values/problem.ts";

export interface FabricHost {
  readonly name: string;
  /** Absent when the host is in no group: no NVLink domain over hosts. */
  readonly rack?: string;
  /** Where the file tells: `nvidia-smi -q` does. */
  readonly gpus?: number;
  /** The device's name as the driver has it. */
  readonly device?: string;
}

export interface Fabric {
  /** The form of the file, for people. */
  readonly form: string;
  /** In order of appearance; names are unique. */
  readonly hosts: readonly FabricHost[];
  /** What was left out, one sentence each. */
  readonly notes: readonly string[];
}

export type ParsedFabric = { readonly kind: "parsed"; readonly fabric: Fabric } | Refused;

/** As the fleet file has it. */
const MAX_NAME = 100;

/** The name of a switch, block or domain as the fleet file takes names of racks. */
export function rackName(text: string): string {
  const safe = text.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+|-+$/g, "");
  return safe.slice(0, MAX_NAME) || "rack";
}
