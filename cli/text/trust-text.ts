/** @file Whose jobs the hosts of a fleet start. */

import type { FleetTrust } from "../../client/agent-trust.ts";
import { countedDo } from "../terminal/duration.ts";

export function trustLines({ shares, unasked }: FleetTrust): readonly string[] {
  const lines = shares.map(
    ({ trust, hosts }) => `trust: ${countedDo(hosts, "host", `start ${meaningOf(trust)}`)}`,
  );
  return unasked === 0
    ? lines
    : [...lines, `trust: ${countedDo(unasked, "host", "were not asked")}`];
}

function meaningOf(trust: string): string {
  const user = /^own-user:(.*)$/.exec(trust)?.[1];
  if (user !== undefined) return `only jobs that user ${user} has signed`;
  if (trust === "policy") return "the jobs that their policy files allow";
  if (trust === "namespace") return "jobs of everybody who reaches the namespace";
  return "jobs by rules that their agents do not say";
}
