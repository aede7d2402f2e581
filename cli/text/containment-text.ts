/** @file How surely the hosts of a fleet end all processes of a job, and what each kind of container does not guarantee. */

import type { FleetTrust } from "../../client/agent-trust.ts";
import { counted } from "../terminal/duration.ts";

export function containmentLines({
  containment,
}: Pick<FleetTrust, "containment">): readonly string[] {
  return containment.flatMap(({ containment: kind, hosts }) => {
    const [does, doesNot] = MEANINGS[kind] ?? UNKNOWN;
    return [
      `containment: ${counted(hosts, "host")} ${does}`,
      ...(doesNot === undefined ? [] : [`  not guaranteed: ${doesNot}`]),
    ];
  });
}

const DAEMONS = "what a container daemon starts for a job is outside";
const MEANINGS: Readonly<Partial<Record<string, readonly [string, string]>>> = {
  cgroup2: [
    "keep each launch in a cgroup (version 2)",
    `a job that runs as root can leave; ${DAEMONS}`,
  ],
  cgroup1: [
    "keep each launch in a cgroup (version 1)",
    `a job that runs as root can leave; ${DAEMONS}`,
  ],
  subreaper: [
    "let each launch's supervisor inherit its orphans",
    `orphans are lost if the supervisor is killed, and what forks and ends without a pause may get away; ${DAEMONS}`,
  ],
  marks: [
    "find the processes of a launch by marks alone",
    "a process with an empty environment and a session of its own gets away",
  ],
};
const UNKNOWN: readonly [string, undefined] = [
  "have agents that do not say how they find processes",
  undefined,
];
