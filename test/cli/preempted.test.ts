/** @file What the command line says of jobs that gave up GPUs, or got fewer than they asked for. */

import { describe, expect, it } from "vitest";
import type { AttemptView, JobHandle, JobView, ListedJob } from "../../client/index.ts";
import type { LogOptions } from "../../client/index.ts";
import { hostId, jobId, leaseId, tenantId, token } from "../../domain/values/ids.ts";
import { ms } from "../../domain/values/units.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { run } from "./run.ts";

const NOW_MS = 3_600_000;
const HOST = hostId("eu-1", "h1");
const WHY = "its GPUs are due to answers (inference, tenant shop)";

const attempt = (number: number, more: Partial<AttemptView> = {}): AttemptView => ({
  attempt: number,
  leaseId: leaseId(token(number)),
  requestedAtMs: 0,
  grantedAtMs: 5_000,
  startedAtMs: 10_000,
  gpus: [{ host: HOST, mask: 0b111111, orderQueue: "q", ranks: [0] }],
  reason: "it fits",
  ...more,
});
const preempted = {
  forJob: jobId("infer-3"),
  reason: WHY,
  atMs: 180_000,
  checkpoint: { path: "/checkpoints/1/step-120", atMs: 183_000 },
  lostGpuSeconds: 41.6,
};
const view = (more: Partial<JobView>): JobView => ({
  jobId: jobId("train-1"),
  fleet: "default",
  state: "running",
  submittedAtMs: 0,
  attempts: [attempt(1)],
  spec: {
    name: "train",
    tenant: tenantId("default"),
    class: "training",
    priority: 0,
    gang: { gpus: 8, min: 4, timeoutMs: ms(30_000) },
    constraints: { isSameHost: false, isSameFabric: false },
    run: { command: ["true"], env: {}, launch: "per-gpu", graceMs: ms(30_000) },
    retry: { attempts: 1, backoffMs: ms(0) },
    isHeld: false,
  },
  ...more,
});

async function said(words: readonly string[], of: JobView, job: Partial<JobHandle> = {}) {
  const handle = {
    view: () => Promise.resolve(of),
    ending: () => Promise.resolve({ isCancelAsked: false }),
    progress: () => Promise.resolve([]),
    ...job,
  } as JobHandle;
  const client = {
    job: () => handle,
    fleet: () => Promise.resolve(emptyLedger({ clusters: [], links: [], tenants: [] })),
  };
  return run([...words, of.jobId], { client, nowMs: NOW_MS });
}

describe("status", () => {
  it("of a gang that got fewer GPUs", async () => {
    const { stdout } = await said(["status"], view({}));
    expect(stdout).toMatch(/^runs on +6 of 8 GPUs \(degraded\)\n +eu-1\/h1 GPU 0-5$/m);
  });

  it.each([
    { name: "for another", forJob: "infer-3", want: `stopping for infer-3: ${WHY}` },
    { name: "to grow", forJob: "train-1", want: `stopping to grow: ${WHY}` },
  ])("while it gives way $name", async ({ forJob, want }) => {
    const stopping = { forJob: jobId(forJob), reason: WHY, atMs: 180_000 };
    const of = view({ state: "stopping", attempts: [attempt(1, { preempted: stopping })] });
    const { stdout } = await said(["status"], of);
    expect(stdout).toMatch(new RegExp(`^state +${want.replace(/[()]/g, "\\$&")}$`, "m"));
  });

  it("of a run that was preempted, for whom, and at what cost", async () => {
    const first = attempt(1, { end: "stopped", endedAtMs: 190_000, preempted });
    const { stdout } = await said(["status"], view({ attempts: [first, attempt(2)] }));
    expect(stdout).toMatch(/ 1 {2}lease-1 .* preempted$/m);
    expect(stdout).toContain(
      "run 1: preempted for infer-3 after 3 min, checkpoint step-120, 42 GPU-seconds lost",
    );
  });
});

it("list: a smaller gang has both sizes, and one that gives way says for whom, in 80 columns", async () => {
  const listed = (more: Partial<ListedJob>): ListedJob => ({
    jobId: jobId("train-1"),
    state: "running",
    class: "training",
    tenant: "research",
    gpus: 48,
    clusters: [],
    hosts: [HOST],
    submittedAtMs: 0,
    ...more,
  });
  const jobs = [
    listed({ gpusRequested: 64 }),
    listed({ jobId: jobId("b"), preemptedFor: jobId("infer-3") }),
    listed({ jobId: jobId("c"), preemptedFor: jobId("c") }),
  ];
  const client = {
    listPages: async function* () {
      yield await Promise.resolve(jobs);
    },
  };
  const { stdout } = await run(["list"], { client, nowMs: NOW_MS });
  const [, smaller, yielding, growing] = stdout.split("\n");
  expect(smaller).toMatch(/ running +48\/64 +eu-1\/h1 /);
  expect(yielding).toMatch(/ running +48 +for infer-3 /);
  expect(growing).toMatch(/ running +48 +stops to grow /);
  for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
});

it("logs: the reader is told why a run ended", async () => {
  const first = attempt(1, { end: "stopped", endedAtMs: 190_000, preempted });
  const of = view({ attempts: [first, attempt(2)] });
  const logs = async function* ({ onAttempt, onAttemptEnd }: LogOptions = {}) {
    onAttempt?.(first);
    yield await Promise.resolve("step 120\n");
    onAttemptEnd?.(of.jobId, first);
    onAttempt?.(attempt(2));
    yield await Promise.resolve("step 121\n");
  };
  const { stdout, stderr } = await said(["logs", "-f"], of, { logs });
  expect(stdout).toBe("step 120\nstep 121\n");
  expect(stderr).toMatch(
    /run 1 was preempted for infer-3 after 3 min, checkpoint step-120, 42 GPU-seconds lost\n.*run 2 on eu-1\/h1\n/,
  );
});
