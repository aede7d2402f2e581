/** @file Hosts whose machines show other GPUs than the fleet's description, a line for each. */

import type { FleetTrust } from "../../client/agent-trust.ts";
import { differenceText } from "../../domain/fleet/machine-differences.ts";
import { harmless } from "../../domain/values/file-problem.ts";

const MAX_LISTED = 20;

/** `eu-1/host-3: 1 GPU is missing, NVLink joins other sets of GPUs` */
export function differenceLines({
  differences: hosts,
}: Pick<FleetTrust, "differences">): readonly string[] {
  const lines = hosts
    .slice(0, MAX_LISTED)
    .map(
      ({ host, differences }) => `${host}: ${harmless(differences.map(differenceText).join(", "))}`,
    );
  const more = hosts.length - lines.length;
  return more > 0 ? [...lines, `… ${String(more)} more`] : lines;
}
