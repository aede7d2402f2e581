/** @file A run of a job that was reset is told again what the former run was told: which grants it takes. */

import { expect, it } from "vitest";
import { EARLY_NUMBER_RULES, JOB_RULES } from "../../../protocol/control-contract.ts";
import { runId, type RunId } from "../../../domain/values/ids.ts";
import { specOf } from "../../domain/job-text.ts";
import { DELIVERED, grantOf, playJob, START_MS, type PlayedJob } from "./builders.ts";

const FORMER = runId("run-0");
const OWN = runId("run-1");

/** The fleet's answer to whether it still has the lease of the former run. */
const answerOf = ({ open, answer }: PlayedJob, isThere: boolean): void => {
  const [asked] = open("has-lease");
  if (asked === undefined) throw new Error("the fleet is not asked");
  answer(asked, { kind: "lease", id: asked.id, isThere });
};

const admit = ({ feed }: PlayedJob, askedBy?: RunId, file: object = {}, rules = JOB_RULES): void =>
  feed({
    kind: "admission",
    admission: {
      kind: "admitted",
      rules,
      spec: specOf({ name: "played", gang: 2, run: { command: ["true"] }, ...file }),
      notified: DELIVERED,
      ...(askedBy !== undefined && { runId: askedBy }),
    },
  });

/** Its fleet took that lease back long ago: on a host that had refused it, it would run where the ledger has nothing. */
it("does not start on a lease of the run before the reset, and starts on its own", () => {
  const job = playJob({ isEntering: true });
  job.feed(job.grant(1, { runId: FORMER }));
  admit(job, OWN);
  expect([job.stage(), job.open("run").length]).toEqual(["waiting", 0]);
  job.feed(job.grant(1, { runId: OWN, id: "lease-7" as never }));
  expect(job.open("run")).toHaveLength(0);
  answerOf(job, false);
  expect(job.open("run").map(({ order }) => order.leaseId)).toEqual(["lease-7"]);
});

/** Words that wait for their proof are heard after the admission. Any other order than live would not replay. */
it("does not start on such a lease either when its grant is heard after the admission", () => {
  const job = playJob({ isEntering: true });
  admit(job, OWN);
  job.feed(job.grant(1, { runId: FORMER, grantedAtMs: START_MS - 1 }));
  expect([job.stage(), job.open("run").length]).toEqual(["waiting", 0]);
  job.feed(job.grant(1, { runId: OWN, id: "lease-7" as never }));
  expect(job.open("run")).toHaveLength(0);
  answerOf(job, false);
  expect(job.open("run").map(({ order }) => order.leaseId)).toEqual(["lease-7"]);
});

it("runs once at a time: its own lease waits while hosts still end what the run before the reset started", () => {
  const job = playJob({ isEntering: true });
  // The former run had come to its third request; the fleet vacates the lease of that.
  job.feed(job.grant(1, { runId: FORMER, grantedAtMs: START_MS - 9 }));
  job.feed(job.grant(3, { runId: FORMER, grantedAtMs: START_MS - 1, id: "lease-3" as never }));
  job.feed(job.grant(1, { runId: OWN, id: "lease-7" as never }));
  admit(job, OWN);
  expect(job.open("has-lease").map(({ lease }) => lease)).toEqual(["lease-3"]);
  answerOf(job, true);
  expect([job.stage(), job.open("run").length]).toEqual(["waiting", 0]);
  job.wait();
  answerOf(job, false);
  expect(job.open("run").map(({ order }) => order.leaseId)).toEqual(["lease-7"]);
});

it("ends at once when it is cancelled while it waits for that", () => {
  const job = playJob({ isEntering: true });
  job.feed(job.grant(1, { runId: FORMER }));
  admit(job, OWN);
  job.feed(job.grant(1, { runId: OWN, id: "lease-7" as never }));
  job.feed({ kind: "cancel" });
  job.deliver();
  expect(job.job().stage).toMatchObject({ kind: "over", outcome: { kind: "cancelled" } });
  expect(job.told.map(({ entry }) => entry)).toContainEqual(
    expect.objectContaining({ kind: "end", seq: 1 }),
  );
});

/** It was requeued in the moment of its admission; its fleet had the end of its first request and the second one before that task was lost. */
it.each([
  [EARLY_NUMBER_RULES, "lease-12", 2],
  [EARLY_NUMBER_RULES - 1, undefined, 1],
])("goes on with its later request that its fleet has answered (rules %i)", (rules, lease, seq) => {
  const job = playJob({ isEntering: true });
  job.feed(job.grant(1, { runId: OWN, id: "lease-9" as never }));
  job.feed(job.grant(3, { runId: FORMER, grantedAtMs: START_MS - 9 }));
  job.feed({ kind: "requeue", order: {} });
  job.feed(job.grant(2, { runId: OWN, id: "lease-12" as never }));
  job.feed(job.grant(3, { runId: FORMER, grantedAtMs: START_MS - 9 }));
  admit(job, OWN, {}, rules);
  if (rules >= EARLY_NUMBER_RULES) answerOf(job, false);
  expect(job.open("run").map(({ order }) => order.leaseId)[0]).toBe(lease);
  expect(job.job().seq).toBe(seq);
});

it("takes the answer to what it asked again after a reset to a later point", () => {
  const job = playJob({ isEntering: true });
  admit(job, FORMER);
  job.feed(job.grant(1, { runId: OWN }));
  expect(job.open("run")).toHaveLength(1);
});

it.each([
  ["asked by the former run, as after a reset to a later point", FORMER],
  ["in a history of a former release", undefined],
] as const)("keeps the grant whose request was %s", (_what, askedBy) => {
  const job = playJob({ isEntering: true });
  job.feed(job.grant(1, { runId: FORMER }));
  admit(job, askedBy);
  expect(job.open("run")).toHaveLength(1);
});

it("keeps of an array's early grants only those of its own run", () => {
  const job = playJob({ isEntering: true });
  const offers = [FORMER, OWN].map((run) => grantOf(1, START_MS, { runId: run }));
  job.feed({ kind: "grants", offers });
  admit(job, OWN, { array: { count: 4 } });
  expect(job.job().earlyGrants).toEqual([[offers[1]]]);
});

/** A run that was reset repeats what the run before did, and may not do anything else because of its own id. */
it("asserts what it holds as the run that is asked, and lets go of it when its next run is asked", () => {
  const job = playJob({ isEntering: true });
  admit(job, FORMER);
  job.feed(job.grant(1, { runId: FORMER }));
  job.feed({ kind: "assert", question: { leases: [], runId: FORMER } });
  job.deliver();
  const asserted = job.told.flatMap(({ entry }) => (entry.kind === "assert" ? [entry.lease] : []));
  expect(asserted).toMatchObject([{ runId: FORMER }]);
  expect(job.open("has-lease")).toHaveLength(0);
  job.feed({ kind: "assert", question: { leases: [], runId: OWN } });
  job.deliver();
  expect(job.told.filter(({ entry }) => entry.kind === "assert")).toHaveLength(1);
  expect(job.open("has-lease").map(({ lease }) => lease)).toEqual(["lease-1"]);
});

it.each([undefined, null, 7, { leases: [] }, { runId: 7 }])(
  "answers as itself a question that names no run: %j",
  (question) => {
    const job = playJob({ isEntering: true });
    admit(job, OWN);
    job.feed(job.grant(1, { runId: OWN }));
    job.feed({ kind: "assert", question });
    job.deliver();
    expect(job.told.filter(({ entry }) => entry.kind === "assert")).toHaveLength(1);
  },
);
