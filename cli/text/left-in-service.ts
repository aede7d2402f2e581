/** @file Hosts on which launches fail, and which their agents have left in service. */

import type { FleetTrust } from "../../client/agent-trust.ts";
import { harmless } from "../../domain/values/file-problem.ts";

/** Nothing where there is none. */
export const leftLines = ({ left = [] }: Pick<FleetTrust, "left">): readonly string[] =>
  left.map(({ host, why }) => `${host}: ${harmless(why)}`);
