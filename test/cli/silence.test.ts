/** @file What operators see of hosts that do not answer: in `fleet show`, and in `explain` and `status` of the jobs there. */

import { describe, expect, it } from "vitest";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { JobExplanation, JobHandle, JobView } from "../../client/index.ts";
import { clusterId, jobId, leaseId, token } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { ask, host, inbox } from "../scheduling/builders.ts";
import { FENCE_MS, SILENT_AT_MS, troubled } from "../support/silent-fleet.ts";
import { run, type Said } from "./run.ts";

const NOW_MS = SILENT_AT_MS + 120_000;
const outside = (ledger: Ledger) => ({
  client: {
    fleet: () => Promise.resolve(ledger),
    plannedDrains: () => Promise.resolve([]),
  },
  nowMs: NOW_MS,
});
const show = (ledger: Ledger, ...flags: readonly string[]): Promise<Said> =>
  run(["fleet", "show", ...flags], outside(ledger));

const BOTH_KINDS = troubled({
  silent: ["c0/h0", "c1/h0"],
  fenced: ["c0/h1"],
  hostsPerCluster: 6,
});

describe("fleet show", () => {
  it("marks silent and fenced hosts in the map, under a legend of their own", async () => {
    const { stdout } = await show(BOTH_KINDS);
    expect(stdout.split("\n").slice(0, 12)).toEqual([
      "fleet default: 48 GPUs, 5 held (5 silent), 36 free, 2 vacating, 1 silent,",
      "    4 fenced; no job waits",
      "GPUs: # held  ~ vacating  . free  x drained  ? no agent",
      "      on silent hosts: % held  ! free; on fenced hosts: |",
      "",
      "c0 (site-c0, EU, H100 80 GiB, 400 Gbps): 24 GPUs, 1 held (1 silent), 16 free,",
      "    2 vacating, 1 silent, 4 fenced",
      "  h0 %~~!   h1 ||||   h2 ....   h3 ....   h4 ....   h5 ....",
      "",
      "c1 (site-c1, EU, H100 80 GiB, 400 Gbps): 24 GPUs, 4 held (4 silent), 20 free",
      "  h0 %%%%   h1 ....   h2 ....   h3 ....   h4 ....   h5 ....",
      "",
    ]);
  });

  it("says since when each is silent, what happens next and when, and what it holds", async () => {
    const { stdout } = await show(BOTH_KINDS);
    expect(stdout.slice(stdout.indexOf("Silent hosts"))).toBe(
      [
        "Silent hosts:",
        "  c0/h0: silent for 2m00s, fenced in 8m00s (2 leases, 3 GPUs)",
        "  c0/h1: fenced 2m00s ago, used again when its agent registers",
        "  c1/h0: silent for 2m00s, held until it answers (1 lease, 4 GPUs)",
        "",
      ].join("\n"),
    );
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("says when mass silence stops the clocks, and what to do", async () => {
    const { stdout } = await show(troubled({ silent: ["c0/h0", "c0/h1"] }));
    expect(stdout).toContain("  c0/h1: silent for 2m00s, its fence time is stopped\n");
    expect(stdout).toMatch(
      /\n {2}2 of 6 agents are silent at once\. .*\n.*\n.*orbweaver fence HOST…\n$/,
    );
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("says nothing of silence when all answer", async () => {
    const { stdout } = await show(troubled({}));
    expect(stdout).not.toMatch(/silent|fenced|answer/);
  });

  it("names twenty of many", async () => {
    const many = Array.from({ length: 30 }, (_, at) => `c0/h${at}`);
    const { stdout } = await show(troubled({ silent: many, hostsPerCluster: 30 }));
    expect(stdout.match(/^ {2}c0\/h\d+: silent/gm)).toHaveLength(20);
    expect(stdout).toContain("\n  … 10 more\n");
  });

  it.each([
    [
      "each host's standing, leases and times",
      BOTH_KINDS,
      {
        isMass: false,
        hosts: [
          {
            host: "c0/h0",
            kind: "fence-due",
            silentMs: 120_000,
            fencedInMs: FENCE_MS - 120_000,
            leases: ["lease-1", "lease-2"],
            gpus: 3,
          },
          { host: "c0/h1", kind: "fenced", fencedAgoMs: 120_000, leases: [], gpus: 0 },
          { host: "c1/h0", kind: "held", silentMs: 120_000, leases: ["lease-1"], gpus: 4 },
        ],
      },
    ],
    [
      "whether the clocks stand still",
      troubled({ silent: ["c0/h0", "c0/h1"] }),
      { isMass: true, hosts: [{ kind: "stopped" }, { kind: "stopped" }] },
    ],
  ])("has as JSON %s", async (_name, ledger, want) => {
    expect(JSON.parse((await show(ledger, "--json")).stdout)).toMatchObject({ silence: want });
  });
});

const VIEW: JobView = {
  jobId: jobId("wide"),
  fleet: "default",
  state: "running",
  submittedAtMs: 0,
  attempts: [
    {
      attempt: 1,
      leaseId: leaseId(token(1)),
      requestedAtMs: 0,
      grantedAtMs: 0,
      gpus: [
        { host: host("c0/h0"), mask: 1, orderQueue: "q", ranks: [0] },
        { host: host("c1/h0"), mask: 0b1111, orderQueue: "q", ranks: [1, 2, 3, 4] },
      ],
      reason: "test",
    },
  ],
};

function jobClient(
  view: JobView,
  fleet: () => Promise<Ledger>,
  more: Partial<JobExplanation> = {},
) {
  const ending = { isCancelAsked: false };
  const handle: Partial<JobHandle> = {
    view: () => Promise.resolve(view),
    ending: () => Promise.resolve(ending),
    explain: () => Promise.resolve({ view, ending, fleet: { kind: "unknown" }, ...more }),
  };
  // Only what the verbs under test use.
  return { job: () => handle as JobHandle, fleet };
}

const explain = (
  view: JobView,
  ledger: Ledger,
  { more = {}, flags = [] }: { more?: Partial<JobExplanation>; flags?: readonly string[] } = {},
): Promise<Said> =>
  run(["explain", "wide", ...flags], {
    client: jobClient(view, () => Promise.resolve(ledger), more),
    nowMs: NOW_MS,
  });

describe("explain of a running job", () => {
  it.each<[string, Ledger, RegExp]>([
    [
      "names the silent host, the time of its fence, and both ways on",
      troubled({ silent: ["c0/h0", "c0/h1"], hostsPerCluster: 6 }),
      /\nsilent +c0\/h0: silent for 2m00s, fenced in 8m00s\n +If it answers before.*\n +Otherwise it ends \(HOST_LOST, uncharged.*\nlease/,
    ],
    [
      "says that a held host keeps it until an operator fences it",
      troubled({ silent: ["c1/h0"] }),
      /\nsilent +c1\/h0: silent for 2m00s, held until it answers\n +No fence time.*orbweaver fence HOST\nlease/,
    ],
    [
      "says that no clock runs in a mass silence",
      troubled({ silent: ["c0/h0", "c0/h1"] }),
      /\nsilent +c0\/h0: silent for 2m00s, its fence time is stopped\n +So many.*\n.*\nlease/,
    ],
    [
      "says that its run ends on a fenced host",
      troubled({ fenced: ["c0/h0"] }),
      /\nsilent +c0\/h0: fenced 2m00s ago, .*\n +The run ends \(HOST_LOST/,
    ],
  ])("%s", async (_name, ledger, want) => {
    const { stdout } = await explain(VIEW, ledger);
    expect(stdout).toMatch(want);
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("says nothing of silent hosts that are not its own", async () => {
    const { stdout } = await explain(VIEW, troubled({ silent: ["c0/h1"] }));
    expect(stdout).not.toContain("silent");
  });

  it("does without a fleet that does not answer", async () => {
    const client = jobClient(VIEW, () =>
      Promise.reject(new OrbweaverError("NO_CONNECTION", "no worker answers")),
    );
    const { code, stdout } = await run(["explain", "wide"], { client, nowMs: NOW_MS });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^wide is running: test\n/);
  });

  it("has the same as JSON", async () => {
    const { stdout } = await explain(VIEW, troubled({ silent: ["c1/h0"] }), { flags: ["--json"] });
    expect(JSON.parse(stdout)).toMatchObject({
      silent: [{ host: "c1/h0", kind: "held", silentMs: 120_000 }],
    });
  });
});

it("explain of a job that waits for hosts lists the silent and fenced ones that would suit it", async () => {
  const ledger = inbox(BOTH_KINDS, [
    ask({ job: "wide", run: "wide-run2", gpus: 24, constraints: { clusters: [clusterId("c0")] } }),
  ]).ledger;
  const reason = {
    code: "WaitingForHosts",
    message: "wide needs 24 GPUs",
    numbers: {},
    holders: [],
    wakeOn: ["host-ready"],
  } as const;
  const { stdout } = await explain({ ...VIEW, state: "pending", attempts: [] }, ledger, {
    more: { fleet: { kind: "waiting", waiting: 1, requestedAtMs: 0, reason } },
  });
  expect(stdout).toMatch(
    /\n {2}silent +c0\/h0: silent for 2m00s, fenced in 8m00s .*\n +c0\/h1: fenced/,
  );
  expect(stdout).not.toContain("c1/h0");
});
