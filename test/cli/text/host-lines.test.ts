/** @file What `fleet show` says of hosts, of one and of several. */

import { expect, it } from "vitest";
import { containmentLines } from "../../../cli/text/containment-text.ts";
import { trustLines } from "../../../cli/text/trust-text.ts";

it.each([
  [[], /any GPU of its host, and is told of its own by index$/],
  [["ids"], /not guaranteed: .*any GPU of its host$/],
  [["gpus", "ids"], /limited: processes, memory, processors, GPUs to the lease's\n(?!.*any GPU)/],
])("what hosts keep of GPUs with %j is said", (more, said) => {
  const limits = ["processes", "memory", "cpus", ...more];
  const share = { containment: "cgroup2", limits, hosts: 1 };
  expect(containmentLines({ containment: [share] }).join("\n")).toMatch(said);
});

it.each([
  [
    1,
    /^trust: 1 host starts only jobs/,
    "1 host was not",
    "1 host keeps each",
    "1 host has agents",
  ],
  [
    2,
    /^trust: 2 hosts start only jobs/,
    "2 hosts were not",
    "2 hosts keep each",
    "2 hosts have agents",
  ],
])("the lines of %i agree in number", (hosts, starts, asked, keeps, has) => {
  const differences = [] as const;
  const containment = ["cgroup2", "unknown"].map((kind) => ({
    containment: kind,
    limits: ["processes", "memory", "cpus"],
    hosts,
  }));
  const [first, last] = trustLines({
    shares: [{ trust: "own-user:ada", hosts }],
    containment,
    differences,
    images: [],
    unasked: hosts,
  });
  expect(first).toMatch(starts);
  expect(last).toContain(asked);
  const lines = containmentLines({ containment });
  expect(lines[0]).toContain(keeps);
  expect(lines.some((line) => line.includes(has))).toBe(true);
});
