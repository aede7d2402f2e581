/** @file What users ask of the queue: `queue`, `submit --what-if`, and what `explain` says of when and of what would help. */

import { describe, expect, it } from "vitest";
import type { JobHandle } from "../../../client/index.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { apply, emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { explainRequest } from "../../../scheduling/explain/explain.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { ask, fleetShape, hello, type RequestSpec } from "../../scheduling/builders.ts";
import { run } from "../run.ts";

const NOW_MS = 3_600_000;
const LONG = "a-job-with-a-name-that-nobody-could-call-short-7f3k2p";

function cycle(ledger: Ledger, nowMs: number, ...entries: readonly InboxEntry[]): Ledger {
  const told = apply(ledger, { kind: "inbox", entries, nowMs }).ledger;
  return apply(told, { kind: "plan", plan: decide(told, nowMs), nowMs }).ledger;
}

/** A host of eight GPUs, all with one job for an hour more; two jobs wait. */
const busyWith = (runs: RequestSpec): Ledger =>
  [
    [hello(["c0/h0"])],
    [ask({ job: "runs", gpus: 8, tenant: "research", timeLimitMs: ms(7_200_000), ...runs })],
    [
      ask({ job: LONG, gpus: 8, tenant: "research", submittedAtMs: 60_000, requestedAtMs: 60_000 }),
      ask({ job: "b", gpus: 2, tenant: "vision", submittedAtMs: 90_000, requestedAtMs: 90_000 }),
    ],
  ].reduce(
    (ledger, entries, at) => cycle(ledger, 60_000 * at, ...entries),
    emptyLedger(fleetShape([{}], [{ id: "research", quota: {} }])),
  );
const BUSY = busyWith({});

const fleet = () => Promise.resolve(BUSY);
const outside = { client: { fleet }, nowMs: NOW_MS };
const widest = (text: string): number => Math.max(...text.split("\n").map(({ length }) => length));

describe("queue", () => {
  it("shows classes and tenants with their GPUs, dues and deficits, then the queue", async () => {
    const { code, stdout } = await run(["queue"], { ...outside, isTerminal: true });
    expect(code).toBe(0);
    expect(widest(stdout)).toBeLessThanOrEqual(80);
    expect(stdout).toMatch(
      /^CLASS \/ TENANT +WEIGHT +WAITING +RUNNING +SHARE +DUE +SHARE +DEFICIT GPU-h\n/,
    );
    expect(stdout).toMatch(/\n {2}research +1 +1 +8 +100\.0% +\d/);
    expect(stdout).toMatch(/\n {2}vision +1 +1 +0 +0\.0% +2 +25\.0%/);
    expect(stdout).toMatch(/ #\*? +JOB +CLASS +TENANT/);
  });

  it("gives a program every id whole", async () => {
    expect((await run(["queue"], outside)).stdout).toContain(` ${LONG} `);
    expect((await run(["queue"], { ...outside, isTerminal: true })).stdout).not.toContain(LONG);
  });

  it("is one document with --json, with deficits that sum to zero among tenants", async () => {
    const { stdout } = await run(["queue", "--json", "--limit", "1"], outside);
    const document = JSON.parse(stdout) as {
      readonly waiting: number;
      readonly jobs: readonly { readonly position: number }[];
      readonly classes: readonly {
        readonly class: string;
        readonly tenants: readonly { readonly deficitGpuSeconds: number }[];
      }[];
    };
    expect([document.waiting, document.jobs.length, document.jobs[0]?.position]).toEqual([2, 1, 1]);
    const [training] = document.classes;
    expect(training?.class).toBe("training");
    const sum = (training?.tenants ?? []).reduce((all, one) => all + one.deficitGpuSeconds, 0);
    expect(sum).toBeCloseTo(0, 6);
  });

  it("of an idle fleet says so", async () => {
    const idle = {
      ...outside,
      client: { fleet: () => Promise.resolve(emptyLedger(fleetShape([{}]))) },
    };
    expect((await run(["queue"], idle)).stdout).toBe(
      "no job waits or runs; 0 GPUs can be granted\n",
    );
  });
});

describe("submit --what-if", () => {
  it("says when a job that would wait starts, and submits nothing", async () => {
    const words = ["submit", "--what-if", "--gpus", "4", "--name", "new", "--", "true"];
    const { code, stdout } = await run(words, outside);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^new would wait: \w+\n {2}it needs 4 GPUs/);
    expect(stdout).toMatch(/\n {2}starts +in /);
  });

  it("says where a job that fits starts, as text and as JSON", async () => {
    const idle = cycle(emptyLedger(fleetShape([{}])), 0, hello(["c0/h0"]));
    const there = { ...outside, client: { fleet: () => Promise.resolve(idle) } };
    const words = ["submit", "--what-if", "--gpus", "4", "--name", "new"];
    const { stdout } = await run([...words, "--", "true"], there);
    expect(stdout).toMatch(/^new would start at once: 4 of 4 GPUs in c0/);
    const asJson = JSON.parse(
      (await run([...words, "--json", "--", "true"], there)).stdout,
    ) as object;
    expect(asJson).toMatchObject({
      name: "new",
      kind: "starts",
      gpus: [{ host: "c0/h0", mask: 15 }],
    });
  });

  it("says of a job that no idle fleet would start that it would never start, with exit status 5", async () => {
    const words = ["submit", "--what-if", "--gpus", "9", "--name", "new"];
    const { code, stdout } = await run([...words, "--", "true"], outside);
    expect([code, stdout]).toEqual([
      5,
      expect.stringMatching(/^new would never start: \w+\n {2}it needs 9 GPUs; this fleet has 8 /),
    ]);
    expect(stdout).toMatch(/would change it +ask for 8 of the 9 GPUs \(gang\.gpus or gang\.min\)/);
    expect(stdout).not.toContain("place");
    const asJson = await run([...words, "--json", "--", "true"], outside);
    expect([asJson.code, JSON.parse(asJson.stdout)]).toMatchObject([
      5,
      {
        name: "new",
        kind: "never",
        reason: { code: "NoMatchingFlavor", numbers: { needGpus: 9, fleetGpus: 8 } },
        changes: [{ kind: "smaller-gang", gpus: 8 }],
      },
    ]);
  });

  it("goes with neither --wait nor --follow", async () => {
    const { code, stderr } = await run(
      ["submit", "--what-if", "-w", "-g", "1", "--", "true"],
      outside,
    );
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/^error BAD_INPUT: --what-if submits nothing/),
    ]);
  });
});

describe("explain", () => {
  it("says when a job that waits will start, and the cheapest changes that would start it", async () => {
    const held = busyWith({ class: "inference" });
    const fleetAnswer = explainRequest(held, jobId(LONG), { nowMs: NOW_MS });
    const explanation = {
      view: { jobId: jobId(LONG), fleet: "default", state: "pending", attempts: [] },
      ending: { isCancelAsked: false },
      fleet: fleetAnswer,
    };
    const job = (): JobHandle =>
      ({ explain: () => Promise.resolve(explanation) }) as unknown as JobHandle; // the only part that is used
    const asked = { ...outside, client: { fleet: () => Promise.resolve(held), job } };
    const { stdout } = await run(["explain", LONG], asked);
    expect(stdout).toMatch(
      /not yielding +1 job on 8 GPUs: may not be preempted; the first ends by its time limit, in 1h01m at most\n/,
    );
    expect(stdout).toMatch(/place +\d of 2 in the queue/);
    expect(stdout).toMatch(/starts +in \S+ to \S+ \(80 %\), in the median/);
    expect(stdout).toMatch(
      /would help +.*end lease-1 \(runs\), which loses 7\.9 GPU-hours of work/s,
    );
    const document = JSON.parse((await run(["explain", LONG, "--json"], asked)).stdout) as object;
    const { stdout: queue } = await run(["queue", "--json"], asked);
    const { jobs } = JSON.parse(queue) as {
      readonly jobs: readonly { readonly jobId: string; readonly position: number }[];
    };
    expect(document).toMatchObject({
      notYielding: [{ rule: "not-preemptible", leases: 1, gpus: 8 }],
      fleet: { position: jobs.find((each) => each.jobId === LONG)?.position },
      forecast: { jobId: LONG, plays: expect.any(Number) },
      changes: expect.arrayContaining([expect.objectContaining({ kind: "release" })]),
    });
  });
});
