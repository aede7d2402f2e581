/** @file `bench console`: the console's page in Chromium, a console of a live fleet, the slider against the fleet's own history, and a scrape. */

import { size, type Bench } from "./bench.ts";

export const CONSOLE_PARTS = ["page", "live", "past", "memory", "scrape"] as const;
export type ConsolePart = (typeof CONSOLE_PARTS)[number];

export const consoleBench: Bench = {
  name: "console",
  summary:
    "the console's page with 6,016 GPUs, its lag and cost on a live fleet, its slider, a scrape",
  description:
    "page: the map of 6,016 GPUs and a queue of 10,000 rows in Chromium, under 500 lease changes a second.\n" +
    "live: a fleet with ten changes a second until it has continued as new: from an event to the frame that shows it, calls to Temporal\n" +
    "with 50 browsers beside one, bytes to a browser; then 100 instants of the slider against the histories, folded anew.\n" +
    "past: 100 instants of a fleet of 6,016 GPUs and 10,000 waiting jobs over two runs.\n" +
    "memory: what a console of that fleet takes while it shows instants of older runs.\n" +
    "scrape: the metrics of 6,016 GPUs, 10,000 waiting jobs and 200 tenants.\n" +
    "Without Chromium and playwright-core (a checkout has it) what needs a browser is not measured, and says so.",
  options: [
    {
      kind: "choice",
      name: "only",
      what: "these parts",
      choices: CONSOLE_PARTS,
    },
    size("seconds", "how long the map is changed", { usual: 60, least: 6 }),
    size("hosts", "hosts of the page and of the scrape, 8 GPUs each", { usual: 752, least: 8 }),
    size("waiting", "jobs in the queue of the page and of the scrape", { usual: 10_000 }),
    size("live-seconds", "ten changes a second at least so long", { usual: 60, least: 5 }),
    size("continues", "times that the live fleet continues as new meanwhile", { usual: 2 }),
    size("cycles", "seconds of each run of the large fleet", { usual: 150, least: 2 }),
    size("instants", "random instants that the slider shows", { usual: 100 }),
    {
      kind: "text",
      name: "address",
      value: "HOST:PORT",
      what: "a Temporal server that is there, for the live fleet; else one is started",
    },
  ],
  examples: [
    ["orbweaver bench console", "all; about five minutes"],
    ["orbweaver bench console --only page --seconds 10", "the page alone, a quick look"],
  ],
  run: async (request) => (await import("./console/run.ts")).runConsole(request),
};
