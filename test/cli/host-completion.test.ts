/** @file Hosts that a TAB offers: those in service to `drain`, the drained ones to `undrain`, silent ones to `fence`; and tenants. */

import { expect, it, vi } from "vitest";
import { run } from "./run.ts";

const host = (name: string) => ({ id: `eu-1/${name}`, gpuCount: 8, gpuType: "H100" });

it.each([
  ["drain", "", ["eu-1/h1"]],
  ["undrain", "eu", ["eu-1/h2"]],
  ["fence", "eu", ["eu-1/h2"]],
])("%s %j is completed to %j", async (verb, start, want) => {
  const said: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((line: string) => void said.push(line));
  // What the completion reads of a ledger.
  const ledger = {
    shape: { clusters: [{ hosts: [host("h1"), host("h2"), host("$(reboot)")] }] },
    hosts: new Map([
      ["eu-1/h1", { agent: {}, isDrained: false }],
      ["eu-1/h2", { agent: {}, isDrained: true, silentSinceMs: 1 }],
    ]),
  } as never;
  await run(["complete", "--", verb, start], { client: { fleet: () => Promise.resolve(ledger) } });
  log.mockRestore();
  expect(said.slice(0, -1)).toEqual(want.map((id) => `${id}\t8 H100`));
});

it.each([
  [
    ["update", "train-7", "--tenant", ""],
    ["blue", "red", "guest"],
  ],
  [["submit", "--tenant", "r"], ["red"]],
  [["queue", "hold", "--tenant", "b"], ["blue"]],
  [
    ["list", "--class", ""],
    ["inference", "interactive", "training"],
  ],
])("%j is completed to %j", async (words, want) => {
  const said: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((line: string) => void said.push(line));
  const ledger = {
    shape: { clusters: [], tenants: [{ id: "blue" }, { id: "red" }, { id: "$(reboot)" }] },
    hosts: new Map(),
    requests: new Map([["train-7", { tenant: "guest" }]]),
    leases: new Map([["lease-1", { tenant: "red" }]]),
  } as never;
  await run(["complete", "--", ...words], { client: { fleet: () => Promise.resolve(ledger) } });
  log.mockRestore();
  expect(said.slice(0, -1).map((line) => line.split("\t")[0])).toEqual(want);
});
