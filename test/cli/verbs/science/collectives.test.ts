/** @file `orbweaver collectives`: what was tuned, why, in other programs' forms, and forgetting it. */

import { describe, expect, it } from "vitest";
import type { PublishedPolicy } from "../../../../domain/bandwidth/collective-evidence.ts";
import { policyText } from "../../../../tuning/policy-file.ts";
import type { CollectiveTunerView } from "../../../../protocol/messages.ts";
import { listingServer } from "../../../support/listing-server.ts";
import { run } from "../../run.ts";

const TEXT = policyText({
  version: 7,
  fromCall: 0,
  hasOverlap: true,
  sections: [
    {
      topology: "eu-1/2x4-A100-nvlink",
      nodes: 2,
      ranks: 8,
      rows: [
        { collective: "allreduce", minBytes: 2 ** 20, maxBytes: 2 ** 24 - 1, arm: "auto" },
        { collective: "allreduce", minBytes: 2 ** 24, maxBytes: 2 ** 27 - 1, arm: "tree/simple" },
      ],
    },
  ],
});
const POLICY: PublishedPolicy = {
  version: 7,
  text: TEXT,
  isExploring: false,
  reasons: [
    {
      collective: "allreduce",
      minBytes: 2 ** 24,
      maxBytes: 2 ** 27 - 1,
      arm: "tree/simple",
      isExploring: false,
      why: "42.0 % faster than NCCL's own choice",
      arms: [
        { arm: "auto", samples: 4, typicalMicros: 287_300 },
        { arm: "tree/simple", samples: 212, typicalMicros: 166_600, slowestMicros: 61_200 },
        { arm: "ring/ll128", samples: 0, typicalMicros: 0 },
      ],
    },
  ],
};
const viewOf = (fleet: string): CollectiveTunerView => ({
  fleet,
  topology: {
    cluster: "eu-1",
    name: "2x4-A100-nvlink",
    nodes: 2,
    ranks: 8,
    hasNvlink: true,
    hasNvlinkSharp: false,
  },
  worlds: [{ hasOverlap: true, policy: POLICY, rows: [] }],
  heard: 216,
  repeated: 3,
  unfit: 0,
});

const ID = "orbweaver-collectives-default-eu-1-2x4-A100-nvlink";
/** The second belongs to a fleet whose name begins like ours. */
const RUNNING: ReadonlyMap<string, CollectiveTunerView> = new Map([
  [ID, viewOf("default")],
  ["orbweaver-collectives-default-2-eu-1-2x4-A100-nvlink", viewOf("default-2")],
]);

function outside() {
  const updated: string[] = [];
  const running = [...RUNNING.keys()].map((workflowId) => ({ execution: { workflowId } }));
  const temporal = {
    ...listingServer([running]),
    withDeadline: (_: number, call: () => unknown) => call(),
    workflow: {
      getHandle: (id: string) => ({
        query: () => Promise.resolve(RUNNING.get(id)),
        executeUpdate: () => {
          updated.push(id);
          return Promise.resolve({ ...RUNNING.get(id), heard: 0 });
        },
      }),
    },
  };
  return { outside: { client: {}, temporal, columns: 80 }, updated };
}

const PLACE = "eu-1/2x4-A100-nvlink";

describe("orbweaver collectives", () => {
  it("show lists the tuners of this fleet, at 80 columns", async () => {
    const { code, stdout } = await run(["collectives", "show"], outside().outside);
    expect(code).toBe(0);
    expect(stdout).toContain("allreduce 16 MiB: tree");
    expect(stdout.split("\n").filter((line) => line.includes("eu-1/2x4"))).toHaveLength(1);
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it("show of a cluster without any says how to begin", async () => {
    const { stdout } = await run(["collectives", "show", "us-1"], outside().outside);
    expect(stdout).toContain("collectives: {tune: true}");
  });

  it("show --json is one document", async () => {
    const { stdout } = await run(["collectives", "show", "--json"], outside().outside);
    expect(JSON.parse(stdout)).toEqual({ fleet: "default", tuners: [viewOf("default")] });
  });

  it("explain says why, and what was tried", async () => {
    const { stdout } = await run(["collectives", "explain", PLACE], outside().outside);
    expect(stdout).toMatch(/allreduce +16 MiB +tree\/simple +42\.0 % faster/);
    expect(stdout).toMatch(/tree\/simple +212 +166\.6 ms +61\.2 ms/);
    expect(stdout).toMatch(/auto +4 +287\.3 ms +-/);
    expect(stdout).not.toContain("ring/ll128");
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it.each([
    { flags: [], want: TEXT },
    { flags: ["--csv"], want: "allreduce,16777216,134217727,tree,simple,-1,2,8" },
    { flags: ["--env"], want: `SEALED='${TEXT.replaceAll("\n", ";")}'` },
  ])("export $flags", async ({ flags, want }) => {
    const { stdout } = await run(["collectives", "export", PLACE, ...flags], outside().outside);
    expect(stdout).toContain(want);
  });

  it.each([
    { words: ["export", PLACE, "--csv", "--env"], code: "two output formats" },
    { words: ["export", PLACE, "--no-overlap"], code: "without overlap" },
    { words: ["explain", "nowhere"], code: "CLUSTER/CLASS" },
  ])("$words is refused with the remedy", async ({ words, code }) => {
    const said = await run(["collectives", ...words], outside().outside);
    expect(said.code).not.toBe(0);
    expect(said.stderr).toContain(code);
  });

  it("reset reaches the tuner of the place", async () => {
    const { outside: out, updated } = outside();
    const { code } = await run(["collectives", "reset", PLACE], out);
    expect([code, updated]).toEqual([0, [ID]]);
  });
});
