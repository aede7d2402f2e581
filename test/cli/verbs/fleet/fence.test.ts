/** @file `orbweaver fence`: which hosts it takes, what it refuses, and what it says of each. */

import { describe, expect, it } from "vitest";
import type { Client } from "@temporalio/client";
import { OrbweaverClient } from "../../../../client/index.ts";
import { packLedger } from "../../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../../scheduling/ledger/ledger.ts";
import { troubled } from "../../../support/silent-fleet.ts";
import { run, type Said } from "../../run.ts";

/** The client library over a fleet that answers with this ledger and does what it is told. */
async function fencing(
  ledger: Ledger,
  words: readonly string[],
): Promise<Said & { readonly told: readonly unknown[] }> {
  const told: unknown[] = [];
  const fleet = {
    query: () => Promise.resolve(packLedger(ledger)),
    executeUpdate: (_update: unknown, { args }: { args: [{ hosts: readonly string[] }] }) => {
      told.push(...args[0].hosts);
      return Promise.resolve(args[0].hosts);
    },
  };
  const temporal = {
    withDeadline: (_atMs: number, call: () => unknown) => call(),
    workflow: { getHandle: () => fleet },
  };
  // Only what `fence` touches exists.
  const client = new OrbweaverClient(temporal as unknown as Client);
  return { ...(await run(["fence", ...words], { client })), told };
}

const DARK = troubled({ silent: ["c0/h0", "c0/h1"], agentless: ["c0/h2"] });

describe("fence", () => {
  it("says of each host which jobs move and what is free at once", async () => {
    const { code, stdout, stderr, told } = await fencing(DARK, ["c0/h0", "c0/h1"]);
    expect({ code, stderr, told }).toEqual({ code: 0, stderr: "", told: ["c0/h0", "c0/h1"] });
    expect(stdout).toBe(
      [
        "c0/h0  fenced: 3 GPUs of 2 leases",
        "  wide moves: its run on 1 GPU ends (lease-1)",
        "  gone has ended: 2 GPUs free now (lease-2)",
        "c0/h1  fenced; no job had anything there",
        "",
      ].join("\n"),
    );
  });

  it.each<[string, readonly string[], readonly string[]]>([
    ["a cluster's name for all its hosts", ["c0"], ["c0/h0", "c0/h1", "c0/h2"]],
    [
      "a host once, however often it is meant",
      ["c0/h1", "c0", "c0/h1"],
      ["c0/h0", "c0/h1", "c0/h2"],
    ],
    ["a host that never had an agent", ["c0/h2"], ["c0/h2"]],
  ])("takes %s", async (_name, words, want) => {
    expect((await fencing(DARK, words)).told).toEqual(want);
  });

  it.each<[string, readonly string[], number, RegExp]>([
    [
      "a host whose agent answers, and then all that are named with it",
      ["c0/h0", "c1/h1"],
      1,
      /NOT_ALLOWED: no host was fenced: the agent of c1\/h1 answered within the last 90 s\. .*--force.*drain/,
    ],
    ["a name that the fleet lacks", ["c0/h9", "c7"], 3, /NOT_FOUND: .*no cluster c0\/h9, c7;/],
    ["nothing at all", [], 2, /missing required argument 'host'/],
  ])("refuses %s", async (_name, words, wantCode, want) => {
    const { code, stdout, stderr, told } = await fencing(DARK, words);
    expect({ code, stdout, told }).toEqual({ code: wantCode, stdout: "", told: [] });
    expect(stderr).toMatch(want);
  });

  it("with --force takes a host that answers, and warns of what goes on there", async () => {
    const { code, stdout, stderr, told } = await fencing(DARK, ["c1/h0", "--force"]);
    expect({ code, told }).toEqual({ code: 0, told: ["c1/h0"] });
    expect(stdout).toBe(
      "c1/h0  fenced: 4 GPUs of 1 lease\n  wide moves: its run on 4 GPUs ends (lease-1)\n",
    );
    expect(stderr).toMatch(/^c1\/h0: the agent was still there\.\n.*beside its own successor/);
  });

  it("says when a host was fenced before", async () => {
    const fenced = troubled({ fenced: ["c0/h1"] });
    expect((await fencing(fenced, ["c0/h1"])).stdout).toBe("c0/h1  was fenced already\n");
  });

  it("is one JSON document when asked", async () => {
    const { stdout } = await fencing(DARK, ["c0/h0", "--json"]);
    expect(JSON.parse(stdout)).toEqual({
      fenced: [
        {
          host: "c0/h0",
          wasFenced: false,
          wasAnswering: false,
          gpus: 3,
          leases: [
            { lease: "lease-1", jobId: "wide", gpus: 1, becomes: "moves" },
            { lease: "lease-2", jobId: "gone", gpus: 2, becomes: "freed" },
          ],
        },
      ],
    });
  });
});
