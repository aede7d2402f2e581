/** @file How surely the hosts of a fleet end all processes of a job, and what each kind of container does not guarantee. */

import type { FleetTrust } from "../../client/agent-trust.ts";
import { countedDo } from "../terminal/duration.ts";

export function containmentLines({
  containment,
}: Pick<FleetTrust, "containment">): readonly string[] {
  return containment.flatMap(({ containment: kind, limits, hosts }) => {
    const kept = limits.filter((each) => each !== IDS);
    const [does, doesNot] = MEANINGS[kind] ?? UNKNOWN;
    return [
      `containment: ${countedDo(hosts, "host", does)}`,
      ...(kept.length === 0
        ? []
        : [`  limited: ${kept.map((each) => WORDS[each] ?? each).join(", ")}`]),
      ...(doesNot === undefined
        ? []
        : [`  not guaranteed: ${[doesNot, ...unlimited(limits), ...openGpus(limits)].join("; ")}`]),
    ];
  });
}

const LIMITS: Readonly<Partial<Record<string, string>>> = {
  processes: "processes",
  memory: "memory",
  cpus: "processors",
};

const GPUS = "gpus";
/** Says how processes are told of their GPUs, and limits nothing. */
const IDS = "ids";
const WORDS: Readonly<Partial<Record<string, string>>> = {
  ...LIMITS,
  [GPUS]: "GPUs to the lease's",
};

function openGpus(limits: readonly string[]): readonly string[] {
  if (limits.includes(GPUS)) return [];
  return [
    `a process can open any GPU of its host${limits.includes(IDS) ? "" : ", and is told of its own by index"}`,
  ];
}

/** Nothing more, where all is limited. */
function unlimited(limits: readonly string[]): readonly string[] {
  const open = Object.keys(LIMITS).filter((each) => !limits.includes(each));
  return open.length === 0
    ? []
    : [`a launch's ${open.map((each) => LIMITS[each]).join(" and ")} are not limited`];
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
