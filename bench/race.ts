/** @file `bench race slurm`: the same work on the same machine, by Slurm and by the product. */

import { size, type Bench } from "./bench.ts";

export const raceBench: Bench = {
  name: "race",
  summary: "the same work beside another scheduler on the same machine",
  description:
    "Installs Debian's Slurm in a throw-away root (an overlay in namespaces of its own: nothing of the machine changes, and all\n" +
    "of it ends with the bench), gives it 4 hosts of 8 fake GPUs, and lets it and a fleet of the same shape do the same work in turns:\n" +
    "small array tasks, short gangs of 4 hosts, separate jobs, one job on idle hosts, a list of a long queue, a preemption. Each keeps\n" +
    "output and exit status of every task and tracks processes by cgroup. Slurm runs twice: with Debian's defaults, and, in each race,\n" +
    "with the best of the settings that the bench lists. Needs root, Debian's package manager and its mirrors; without them the rows are null.",
  options: [
    { kind: "argument", name: "rival", what: "the other scheduler", choices: ["slurm"] },
    {
      kind: "text",
      name: "address",
      value: "host:port",
      what: "use this Temporal server, which has no other Orbweaver workers",
    },
    size("rounds", "rounds of each race, in turns; the median counts", { usual: 5 }),
    size("tasks", "tasks of the array", { usual: 1_000 }),
    size("gangs", "gangs of the array of gangs", { usual: 100 }),
    size("jobs", "separate jobs", { usual: 200 }),
    size("queued", "jobs of the queue that is listed", { usual: 10_000 }),
    size("lists", "how often the queue is listed", { usual: 5 }),
  ],
  examples: [
    ["orbweaver bench race slurm", "about forty minutes on two cores"],
    ["orbweaver bench race slurm --rounds 1 --tasks 100 --queued 500", "in some minutes"],
  ],
  run: async (request) => (await import("./race/run.ts")).runRace(request),
};
