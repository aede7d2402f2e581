/** @file Bugs in what comes late or twice: requests, calls, credits, refusals, reports, deadlines. As `catalogue.ts` has the others. */

import type { LeaseId } from "../../../domain/values/ids.ts";
import type { GangRequest } from "../../../domain/lease/lease.ts";
import { isFields } from "../../../lib/fields.ts";
import type { Job } from "../../../machines/job/job-state.ts";
import { entries, type PlantedBug } from "./planted-bug.ts";

/** A request as an honest sender writes it. */
const requestIn = (entry: unknown): GangRequest | undefined =>
  isFields(entry) && entry["kind"] === "request" && isFields(entry["request"])
    ? (entry["request"] as unknown as GangRequest)
    : undefined;

/** The same words, but the request in force ends before a copy of such a number comes. */
const endedBefore = (isPlanted: (copy: GangRequest, present: GangRequest) => boolean) =>
  entries((entry, requests) => {
    const copy = requestIn(entry);
    const present = copy && requests.get(copy.jobId);
    if (copy === undefined || present?.runId !== copy.runId || !isPlanted(copy, present))
      return [entry];
    const { jobId, runId, seq } = present;
    return [{ kind: "end", jobId, runId, seq, unconfirmedHosts: "all" }, entry];
  });

/** Plays one step under former rules of jobs where that is planted. */
const under =
  (rules: number, isPlanted: (job: Job) => boolean): NonNullable<PlantedBug["planted"]["job"]> =>
  (machine) => {
    const former = (job: Job): Job =>
      isPlanted(job) ? { ...job, rules: Math.min(job.rules, rules) } : job;
    return {
      ...machine,
      step: (job, event, nowMs) => {
        const { state, commands } = machine.step(former(job), event, nowMs);
        return { state: { ...state, rules: Math.max(job.rules, state.rules) }, commands };
      },
      dueAtMs: (job) => machine.dueAtMs(former(job)),
    };
  };

export const PLANTED_LATE: readonly PlantedBug[] = [
  {
    name: "an order that was given before the agent told that nothing runs starts at once",
    seenAt: 50,
    planted: { agent: { isFromBefore: () => false } },
  },
  {
    name: "a host that has refused a run starts an order from before it",
    seenAt: 97_020_015,
    planted: { agent: { notesRefusals: false } },
  },
  {
    name: "a lobby that is asked again forgets what the present ledger has given",
    seenAt: 99_000_231,
    climate: "ruthless",
    planted: {
      lobby: (machine) => ({
        ...machine,
        step: (lobby, event, nowMs) => {
          const step = machine.step({ ...lobby, forgetsAll: true }, event, nowMs);
          const { forgetsAll: _planted, ...state } = step.state;
          return { ...step, state };
        },
      }),
    },
  },
  {
    name: "what a local activity answers makes an order to hold durable",
    seenAt: 99_000_865,
    climate: "hostile",
    planted: { job: under(9, ({ isHeld }) => isHeld) },
  },
  {
    name: "a job that is called in the moment of its end keeps the credit",
    seenAt: 99_002_412,
    climate: "ruthless",
    planted: { job: under(9, ({ call, reason }) => call !== undefined && reason !== undefined) },
  },
  {
    name: "an array that is called while it tells its end keeps the credit",
    seenAt: 99_010_520,
    climate: "harsh",
    planted: {
      array: (machine) => ({
        ...machine,
        step: (array, event, nowMs) =>
          event.kind === "call-in" && array.phase.kind !== "open"
            ? { state: array, commands: [] }
            : machine.step(array, event, nowMs),
      }),
    },
  },
  {
    name: "the end of a later run frees what an earlier one has left unconfirmed",
    seenAt: 92_000_070,
    climate: "ruthless",
    planted: {
      fleet: entries((entry, _requests, leases) => {
        if (!isFields(entry) || entry["kind"] !== "end" || entry["lease"] !== undefined)
          return [entry];
        const { jobId, runId, seq } = entry;
        const earlier = [...leases.values()].filter(
          (lease) =>
            lease.jobId === jobId &&
            lease.runId === runId &&
            lease.seq < (seq as GangRequest["seq"]), // as its job writes it
        );
        return [...earlier.map(({ id }) => ({ ...entry, lease: id })), entry];
      }),
    },
  },
  {
    name: "a copy of a request takes its place in the queue anew",
    seenAt: 54_000_017,
    climate: "hostile",
    planted: { fleet: endedBefore((copy, present) => copy.seq === present.seq) },
  },
  {
    name: "an older request supersedes a newer one",
    seenAt: 54_000_011,
    climate: "hostile",
    planted: { fleet: endedBefore((copy, present) => copy.seq < present.seq) },
  },
  {
    name: "a credit stays with a request that comes late",
    seenAt: 54_000_084,
    climate: "hostile",
    planted: {
      fleet: entries((entry, requests) => {
        const request = requestIn(entry);
        const present = request === undefined ? undefined : requests.get(request.jobId);
        if (request === undefined || present?.runId !== request.runId) return [entry];
        const { credit: _lost, ...rest } = request;
        return [present.seq >= request.seq ? { kind: "request", request: rest } : entry];
      }),
    },
  },
  {
    name: "a refusal never rests",
    seenAt: 31_000_470,
    climate: "hostile",
    planted: { job: under(7, ({ call }) => call === undefined) },
  },
  {
    name: "a job that backs off keeps no call",
    seenAt: 31_001_862,
    climate: "hostile",
    planted: { job: under(7, ({ call }) => call !== undefined) },
  },
  {
    name: "a job that waits for others leaves its lobby for a call to the run before a reset",
    seenAt: 81_000_015,
    climate: "ruthless",
    planted: {
      job: under(8, ({ call, stage }) => call !== undefined && stage.kind === "following"),
    },
  },
  {
    name: "a job that was reset answers a question to the run before as itself",
    seenAt: 81_000_004,
    climate: "ruthless",
    planted: { job: under(8, ({ lane }) => lane.isAsked || lane.isAnswering) },
  },
  {
    name: "an array that was reset answers a question to the run before as itself",
    seenAt: 81_000_013,
    climate: "ruthless",
    planted: {
      array: (machine) => ({
        ...machine,
        step: (array, event, nowMs) => {
          const { state, commands } = machine.step({ ...array, rules: 8 }, event, nowMs);
          return { state: { ...state, rules: array.rules }, commands };
        },
      }),
    },
  },
  {
    name: "a job that enters forgets the answer to a later request of its own",
    seenAt: 99_011_577,
    planted: {
      job: (machine) => ({
        ...machine,
        step: ({ later: _forgotten, ...job }, event, nowMs) => machine.step(job, event, nowMs),
      }),
    },
  },
  {
    name: "an array ends no lease that a late word has asserted after its return",
    seenAt: 99_012_443,
    climate: "hostile",
    planted: {
      array: (machine) => ({
        ...machine,
        step: (array, event, nowMs) => {
          const requests = { ...array.requests, asserted: new Set<LeaseId>() };
          return machine.step({ ...array, requests }, event, nowMs);
        },
      }),
    },
  },
  {
    name: "a job leaves its lobby for a call of a later request",
    seenAt: 81_000_024,
    climate: "ruthless",
    planted: { job: under(5, ({ call, seq }) => call !== undefined && call.seq > seq) },
  },
  {
    name: "a lobby that goes on for another one reports before it has been told",
    seenAt: 54_000_025,
    climate: "hostile",
    planted: {
      lobby: (machine) => ({
        ...machine,
        step: (lobby, event, nowMs) => {
          const step = machine.step({ ...lobby, reportsEarly: true }, event, nowMs);
          const { reportsEarly: _planted, ...state } = step.state;
          return { ...step, state };
        },
        dueAtMs: (lobby) => machine.dueAtMs({ ...lobby, reportsEarly: true }),
      }),
    },
  },
  {
    name: "no clock is set for a deadline",
    seenAt: 31_000_212,
    climate: "hostile",
    planted: {
      job: (machine) => ({
        ...machine,
        dueAtMs: (job) => {
          const { deadlineMs: _planted, ...spec } = job.spec ?? {};
          return machine.dueAtMs({ ...job, spec: spec as NonNullable<typeof job.spec> }); // without one thing
        },
      }),
    },
  },
];
