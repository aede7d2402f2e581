/** @file Verbs that show or steer jobs: what they print at 80 columns, as JSON, and how they end. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type {
  JobEnding,
  JobExplanation,
  JobHandle,
  JobOutcome,
  JobSpec,
  JobView,
  ListedJob,
  LogOptions,
} from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import {
  clusterId,
  hostId,
  jobId,
  leaseId,
  runId,
  tenantId,
  token,
} from "../../domain/values/ids.ts";
import { ms } from "../../domain/values/units.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { run } from "./run.ts";

const NOW_MS = 3_600_000;
const HOST = hostId("frankfurt-h100", "h100-26");
const PENDING = {
  code: "WaitingForGpus",
  message: "b needs 8 GPUs; 2 are free. Wait, or lower gang.min.",
  numbers: { needGpus: 8, freeGpus: 2 },
  holders: [jobId("a")],
  wakeOn: ["lease-released"],
} as const;

function listed(more: Partial<ListedJob>): ListedJob {
  return {
    jobId: jobId("a"),
    state: "pending",
    class: "training",
    tenant: "research",
    gpus: 8,
    clusters: [],
    hosts: [],
    submittedAtMs: NOW_MS - 90_000,
    ...more,
  };
}

async function* each<T>(items: readonly T[]): AsyncGenerator<T> {
  for (const item of items) yield await Promise.resolve(item);
}

const JOBS = [
  listed({
    jobId: jobId("a-job-with-a-name-that-nobody-could-call-short-7f3k2p"),
    state: "running",
    hosts: [HOST, hostId("frankfurt-h100", "h100-27")],
    grantedAtMs: NOW_MS - 60_000,
  }),
  listed({ jobId: jobId("b"), pending: PENDING }),
  listed({ jobId: jobId("c"), state: "failed", clusters: [clusterId("eu-1")], endedAtMs: NOW_MS }),
];

describe("list", () => {
  const client = { listPages: () => each([JOBS]) };

  it("shows job, class, tenant, state, GPUs, where and the wait in 80 columns", async () => {
    const { code, stdout } = await run(["list"], {
      client,
      nowMs: NOW_MS,
      isTerminal: true,
      env: { NO_COLOR: "1" },
    });
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
    expect(lines[0]).toMatch(/^JOB +CLASS +TENANT +STATE +GPUS +WHERE +WAITED$/);
    expect(lines[1]).toMatch(/^a-job-with.*… +training +research +running +8 +frankfurt.* +30s$/);
    expect(lines[2]).toMatch(/^b +training +research +pending +8 +WaitingForGpus +1m30s$/);
    expect(lines[3]).toMatch(/^c +training +research +failed +8 +eu-1$/);
  });

  it("is one JSON document when asked, with nothing beside it", async () => {
    const { stdout, stderr } = await run(["list", "--json"], { client, nowMs: NOW_MS });
    expect(JSON.parse(stdout)).toEqual({ jobs: JSON.parse(JSON.stringify(JOBS)) as unknown });
    expect(stderr).toBe("");
  });

  it("colours states on a terminal only, and never against NO_COLOR", async () => {
    const colour = "\u001b[32mrunning";
    expect((await run(["list"], { client })).stdout).not.toContain(colour);
    expect((await run(["list"], { client, isTerminal: true })).stdout).toContain(colour);
    const against = { client, isTerminal: true, env: { NO_COLOR: "1" } };
    expect((await run(["list"], against)).stdout).not.toContain("\u001b");
  });

  it("prints a changed line once while it watches without a terminal, and ends at Ctrl-C with 130", async () => {
    const controller = new AbortController();
    const watched = {
      listPages: () => {
        queueMicrotask(() => {
          controller.abort();
        });
        return each([JOBS]);
      },
    };
    const { code, stdout } = await run(["list", "--watch"], {
      client: watched,
      interrupted: controller.signal,
    });
    expect(code).toBe(130);
    expect(stdout.split("\n").filter((line) => line.startsWith("b "))).toHaveLength(1);
  });
});

function handle(more: Partial<JobHandle>): { readonly job: () => JobHandle } {
  // A verb that uses more of the handle than the test gives fails.
  return { job: () => more as JobHandle };
}

describe("cancel", () => {
  const ended: string[] = [];
  const client = {
    job: (id: string) =>
      ({
        cancel: () => {
          if (id === "gone")
            return Promise.reject(new OrbweaverError("NOT_FOUND", "job gone does not exist"));
          ended.push(id);
          return Promise.resolve();
        },
      }) as JobHandle,
  };

  it("goes on after a job that fails, and ends with that job's status", async () => {
    const { code, stdout, stderr } = await run(["cancel", "a", "gone", "b"], { client });
    expect(code).toBe(3);
    expect(stdout).toBe("a  cancelling\nb  cancelling\n");
    expect(stderr).toBe("error NOT_FOUND: job gone does not exist\n");
    expect(ended).toEqual(["a", "b"]);
  });

  it("is to kill what it is for a job to finish what it is at", async () => {
    const forced: unknown[] = [];
    const job = { cancel: (options: unknown) => Promise.resolve(void forced.push(options)) };
    const of = { client: { job: () => job as unknown as JobHandle } };
    expect((await run(["kill", "a"], of)).stdout).toBe("a  killing\n");
    expect((await run(["cancel", "a", "--force"], of)).stdout).toBe("a  killing\n");
    expect((await run(["cancel", "a"], of)).stdout).toBe("a  cancelling\n");
    expect(forced).toEqual([true, true, false].map((isForced) => ({ isForced })));
    expect((await run(["kill"], of)).stderr).toMatch(/^error BAD_INPUT: no job to kill is named/);
  });

  const late = [1, 3, 5, ...Array.from({ length: 30 }, (_, at) => 100 + 2 * at)].join(",");
  it.each([
    [{ done: 10, stopping: 1, skipped: 0 }, "10 cancelled, 1 stopping"],
    [
      { done: 10, stopping: 0, skipped: 4, skippedTasks: "3-5,9" },
      "10 cancelled, 4 had ended (3-5,9)",
    ],
    [{ done: 0, stopping: 0, skipped: 4 }, "4 had ended"],
    [
      { done: 0, stopping: 0, skipped: 33, skippedTasks: late },
      "33 had ended (1,3,5,100,102,104,106,108,110,112,114,…)",
    ],
    // With the name of the job no line has more than 80 characters.
    [
      { done: 12_000, stopping: 1_200, skipped: 33, skippedTasks: late },
      "12000 cancelled, 1200 stopping, 33 had ended (1,3,5,100,102,104,106,…)",
    ],
  ])("of tasks of an array says what became of them: %j", async (answer, want) => {
    const asked: string[] = [];
    const cancelTasks = (tasks: string) => {
      asked.push(tasks);
      return Promise.resolve(answer);
    };
    const of = {
      client: { job: (jobId: string) => ({ jobId, cancelTasks }) as unknown as JobHandle },
    };
    const words = ["cancel", "sweep-3", "--task", "3-5,9"];
    expect((await run(words, of)).stdout).toBe(`sweep-3  ${want}\n`);
    expect(JSON.parse((await run([...words, "--json"], of)).stdout)).toEqual({
      jobs: [{ jobId: "sweep-3", state: want, tasks: answer }],
    });
    expect(asked).toEqual(["3-5,9", "3-5,9"]);
    expect((await run([...words, "--force"], of)).code).toBe(2);
  });

  it("says the same as JSON", async () => {
    const { stdout } = await run(["cancel", "a", "gone", "--json"], { client });
    expect(JSON.parse(stdout)).toEqual({
      jobs: [
        { jobId: "a", state: "cancelling" },
        { jobId: "gone", error: { code: "NOT_FOUND", message: "job gone does not exist" } },
      ],
    });
  });
});

const VIEW: JobView = {
  jobId: jobId("b"),
  fleet: "default",
  state: "running",
  submittedAtMs: 0,
  attempts: [
    {
      attempt: 1,
      leaseId: leaseId(token(3)),
      requestedAtMs: 0,
      grantedAtMs: 5_000,
      gpus: [{ host: HOST, mask: 0b1011, orderQueue: "q", ranks: [0, 1, 2] }],
      predictedGBs: 123.45,
      reason: "3 of 3 GPUs in frankfurt-h100",
    },
  ],
};

const SPEC: JobSpec = {
  name: "b",
  tenant: tenantId("research"),
  class: "training",
  priority: 0,
  gang: { gpus: 3, min: 2, timeoutMs: ms(60_000) },
  constraints: { isSameHost: true, isSameFabric: false, gpuTypes: ["H100"] },
  run: {
    command: ["python", "a b.py"],
    env: {},
    launch: "per-gpu",
    graceMs: ms(30_000),
    checkpoint: { order: { kind: "signal", signal: "USR1" }, graceMs: ms(60_000) },
  },
  retry: { attempts: 2, backoffMs: ms(0) },
  isHeld: false,
};

const GOES_ON: JobEnding = { isCancelAsked: false };
const FAILED: JobOutcome = {
  kind: "failed",
  message: "gang: missing\nrun: missing",
  failure: { code: "MISCONFIGURED", attempts: 0 },
};

const TWO_CLUSTERS = `
clusters:
  - { name: eu, site: a, jurisdiction: EU, hosts: [{ name: h1, gpus: 4, type: H100 }] }
  - { name: us, site: b, jurisdiction: US, hosts: [{ name: a1, gpus: 4, type: A100 }] }
`;

describe("explain", () => {
  it.each<[string, JobExplanation, RegExp]>([
    [
      "why a job waits: code, numbers, holders, what would change it",
      {
        view: { ...VIEW, state: "pending", attempts: [] },
        ending: GOES_ON,
        fleet: { kind: "waiting", waiting: 5, requestedAtMs: 0, reason: PENDING },
      },
      /^b waits: WaitingForGpus\n {2}b needs 8 GPUs.*\n {2}waits for +1h00m\n {2}numbers +needGpus 8, freeGpus 2\n {2}held by +a\n {2}changes on +lease-released\n$/,
    ],
    [
      "why a running one runs there",
      { view: VIEW, ending: GOES_ON, fleet: { kind: "unknown" } },
      /^b is running: 3 of 3 GPUs.*\non +frankfurt-h100\/h100-26 GPU 0-1,3\nlease +lease-3\nwaited +5s\nbandwidth +123\.5 GB\/s/,
    ],
    [
      "that its owner holds it",
      { view: { ...VIEW, state: "held" }, ending: GOES_ON, fleet: { kind: "unknown" } },
      /OnHold.*release b/s,
    ],
    [
      "that no fleet answers",
      { view: { ...VIEW, state: "pending", attempts: [] }, ending: GOES_ON },
      /NoFleet/,
    ],
    [
      "that nobody has decided yet",
      {
        view: { ...VIEW, state: "pending", attempts: [] },
        ending: GOES_ON,
        fleet: { kind: "unknown" },
      },
      /PendingEvaluation/,
    ],
    [
      "that it has ended, with its code and message",
      {
        view: { ...VIEW, state: "completed" },
        ending: { isCancelAsked: false, endedAtMs: 9_000, outcome: FAILED },
        fleet: { kind: "unknown" },
      },
      /^b has failed: MISCONFIGURED\n {2}gang: missing\n {2}run: missing\n$/,
    ],
    [
      "that it is being stopped, why, and how long that may take",
      {
        view: { ...VIEW, state: "stopping", spec: SPEC },
        ending: { isCancelAsked: true },
        fleet: { kind: "unknown" },
      },
      /^b is being stopped: its cancel was asked\n {2}Its processes on 1 host get 1m00s to write a checkpoint, 30s to end, and 30s more after TERM; then KILL\.\nwhy there +3 of 3/,
    ],
  ])("says %s", async (_name, explanation, want) => {
    const client = {
      ...handle({ explain: () => Promise.resolve(explanation) }),
      fleet: () => Promise.resolve(emptyLedger({ clusters: [], links: [], tenants: [] })),
    };
    const { code, stdout } = await run(["explain", "b"], { client, nowMs: NOW_MS });
    expect(code).toBe(0);
    expect(stdout).toMatch(want);
  });

  it("names the drained hosts that would suit a job that waits for hosts, and why they are drained", async () => {
    const parsed = parseFleetYaml(TWO_CLUSTERS, {
      file: "f",
      read: () => ({ kind: "missing", reason: "" }),
    });
    if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
    const request = {
      jobId: jobId("b"),
      runId: runId("r"),
      seq: 1,
      name: "b",
      tenant: SPEC.tenant,
      class: SPEC.class,
      priority: 0,
      gang: SPEC.gang,
      constraints: SPEC.constraints,
      submittedAtMs: 0,
      requestedAtMs: 0,
      arrival: 1,
    };
    const drained = (reason: string) => ({ isDrained: true, drainReason: reason });
    const ledger = {
      ...emptyLedger(parsed.fleet.shape),
      hosts: new Map([
        [hostId("eu", "h1"), drained("bad NVLink")],
        [hostId("us", "a1"), drained("sold")],
      ]),
      requests: new Map([[jobId("b"), request]]),
    };
    const explanation: JobExplanation = {
      view: { ...VIEW, state: "pending", attempts: [] },
      ending: GOES_ON,
      fleet: {
        kind: "waiting",
        waiting: 1,
        requestedAtMs: 0,
        reason: { ...PENDING, code: "WaitingForHosts" },
      },
    };
    const client = {
      ...handle({ explain: () => Promise.resolve(explanation) }),
      fleet: () => Promise.resolve(ledger),
    };
    const { stdout } = await run(["explain", "b"], { client, nowMs: NOW_MS });
    expect(stdout).toMatch(/\n {2}drained +eu\/h1: bad NVLink\n {2}numbers/);
    expect(stdout).not.toContain("sold");
  });
});

describe("status of a job that has ended", () => {
  const ENDED: JobEnding = {
    user: "ada",
    isCancelAsked: true,
    endedAtMs: 65_000,
    outcome: {
      kind: "failed",
      message: "rank 2 ended with 1",
      failure: { code: "PROCESS_EXITED", attempts: 1, lastLines: "Traceback\nValueError\n" },
    },
  };

  const view: JobView = {
    ...VIEW,
    state: "failed",
    spec: SPEC,
    attempts: VIEW.attempts.map((attempt) => ({
      ...attempt,
      endedAtMs: 65_000,
      end: "failed" as const,
      cause: {
        code: "PROCESS_EXITED",
        message: "rank 2 ended with 1",
        atMs: 65_000,
        host: HOST,
        lastLines: "Traceback\nValueError\n",
      },
    })),
  };

  it("says what it asked for, where it ran, how it ended, and where to look on", async () => {
    const client = handle({
      view: () => Promise.resolve(view),
      ending: () => Promise.resolve(ENDED),
    });
    const { stdout } = await run(["status", "b"], { client, nowMs: NOW_MS });
    expect(stdout).toContain("GPUs       3, down to 2 after 1m00s");
    expect(stdout).toContain("needs      GPU H100, one host");
    expect(stdout).toContain("command    python 'a b.py'");
    expect(stdout).toContain("http://ui/namespaces/default/workflows/b");
    expect(stdout).toMatch(/ 1 {2}lease-3 {2}frankfurt-h100\/h100-26 +5s +1m00s {2}PROCESS_EXITED/);
    expect(stdout).toContain(
      "PROCESS_EXITED: rank 2 ended with 1\n  | Traceback\n  | ValueError\n",
    );
    expect(stdout).toMatch(/^state +failed \(cancel was asked\)$/m);
    expect(stdout).toMatch(/^ended +1970-01-01 00:01:05 UTC \(58m55s ago\)$/m);
    expect(stdout).toMatch(/^submitted +1970-01-01 .* ago\) by ada$/m);
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("says why one failed that never ran", async () => {
    const { spec: _none, ...bare } = view;
    const client = handle({
      view: () => Promise.resolve({ ...bare, attempts: [] }),
      ending: () => Promise.resolve({ isCancelAsked: false, endedAtMs: 0, outcome: FAILED }),
    });
    const { stdout } = await run(["status", "b"], { client, nowMs: NOW_MS });
    expect(stdout).toContain("\n\nMISCONFIGURED: gang: missing\nrun: missing\n");
  });
});

describe("submit --wait", () => {
  const submitted = (outcome: () => Promise<JobOutcome>, isNew = true) => ({
    submit: () => Promise.resolve({ jobId: jobId("b"), isNew }),
    ...handle({ jobId: jobId("b"), outcome, logs, view: () => Promise.resolve(VIEW) }),
  });
  const logs = async function* ({ onAttempt }: LogOptions = {}) {
    onAttempt?.({ attempt: 1, leaseId: leaseId(token(3)), gpus: [] } as never);
    yield await Promise.resolve("out\n");
  };
  const words = ["submit", "--wait", "--key", "b", "--gpus", "1", "--", "x"];

  it("prints the output and ends as the job's process did", async () => {
    const failure = { code: "PROCESS_EXITED", attempts: 1, exitCode: 3 } as const;
    const client = submitted(() =>
      Promise.resolve({ kind: "failed", message: "rank 0 ended with 3", failure }),
    );
    const { code, stdout, stderr } = await run(words, { client });
    expect({ code, stdout }).toEqual({ code: 3, stdout: "out\n" });
    expect(stderr).toContain("b\nb failed: PROCESS_EXITED: rank 0 ended with 3\n");
  });

  it("says that a key was used before, and still waits", async () => {
    const client = submitted(() => Promise.resolve({ kind: "cancelled" }), false);
    const { code, stderr } = await run(words, { client });
    expect(code).toBe(130);
    expect(stderr).toContain("b had been submitted before; nothing was started\n");
  });

  it("leaves the job alone at Ctrl-C and says so", async () => {
    const controller = new AbortController();
    const client = submitted(() => {
      queueMicrotask(() => {
        controller.abort();
      });
      return new Promise(() => undefined);
    });
    const { code, stderr } = await run(words, { client, interrupted: controller.signal });
    expect(code).toBe(130);
    expect(stderr).toContain("b continues; `orbweaver cancel b` stops it\n");
  });
});

it("submits none of several files while one of them is wrong", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "orbweaver-submit-"));
  writeFileSync(join(cwd, "good.yaml"), "name: a\ngang: 1\nrun: {command: [x]}\n");
  writeFileSync(join(cwd, "bad.yaml"), "name: a\ngang: 1\n");
  const { code, stdout, stderr } = await run(["submit", "good.yaml", "bad.yaml"], {
    cwd,
    client: {},
  });
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(/^error BAD_INPUT: bad\.yaml:1:1 run: missing/);
});
