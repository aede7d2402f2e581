/**
 * @file What a ledger may make of the requests of its jobs, whatever comes twice or late: the newest of a run stays and keeps its place in the queue, and one that a
 * lease has answered waits no more. And what jobs may say: nobody leaves a lobby under a number that he has not asked under, or asks under anew.
 *
 * A fleet that recovers hears everything anew, in any order, so its ledger is not judged. Cost: O(requests + leases) for a ledger whose requests have changed;
 * O(entries) for a word.
 */

import { isFields } from "../../lib/fields.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

type Asked = Ledger["requests"] extends ReadonlyMap<unknown, infer Request> ? Request : never;

/** Also what a stranger makes of such words. */
type Word = Readonly<Record<string, unknown>>;

export interface RequestLaws {
  readonly ledgerChanged: (ledger: Ledger, isRecovering: boolean) => void;
  /** A word to the inbox of a fleet. */
  readonly fleetTold: (entries: unknown) => void;
  /** `atMs`: by the server's clock, when the lobby heard it. */
  readonly leftLobby: (leave: unknown, atMs: number) => void;
  /** Somebody resets a job's workflow to a later task. */
  readonly jobReset: (job: string) => void;
  /** A workflow task of that run is durable. */
  readonly runBegan: (runId: string) => void;
}

export function createRequestLaws(violate: (law: string, message: string) => void): RequestLaws {
  let last: Ledger["requests"] = new Map();
  /** The highest number under which a run has asked. */
  const asked = new Map<string, number>();
  /**
   * The highest number up to which a run has ended its requests, until a ledger shows that this was heard: what comes of one of them after the end, in the same task of
   * the fleet, is a copy that joins anew.
   */
  const ended = new Map<string, number>();
  /** When a lobby heard last that a run leaves under a number. */
  const leftAtMs = new Map<string, number>();
  /** The latest time that anybody has named: the server's clock may fall back. */
  let latestMs = 0;
  /** Reset to a later task: such a run says again what the run before has said. */
  const reset = new Set<unknown>();
  /** Runs of which something is durable: whoever takes up the first task of another one asks first, though a frozen worker has said all that the task says. */
  const begun = new Set<unknown>();

  function judge(request: Asked, answered: number): void {
    const { jobId, runId, seq } = request;
    const former = last.get(jobId);
    if (former?.runId === runId && seq < former.seq)
      violate("newer requests stay", `request ${seq} of ${jobId} comes after ${former.seq}`);
    // What is left of an array's request joins the queue again behind each grant.
    if (request.slots !== undefined) return;
    const isEnded = seq <= (ended.get(`${jobId} ${runId}`) ?? -1);
    if (hasRejoined(request) && !isEnded)
      violate("requests keep their places", `request ${seq} of ${jobId} has come twice`);
    if (seq <= answered)
      violate("requests are answered once", `request ${seq} of ${jobId} waits beside its lease`);
  }

  function hasRejoined({ jobId, runId, seq, arrival }: Asked): boolean {
    const former = last.get(jobId);
    return former?.runId === runId && former.seq === seq && former.arrival !== arrival;
  }

  /** Forgets the ends after which the request is out of the queue, or in another place. */
  function noteHeardEnds(requests: Ledger["requests"]): void {
    if (ended.size === 0) return;
    const waiting = new Map<string, Asked>();
    for (const each of requests.values()) waiting.set(`${each.jobId} ${each.runId}`, each);
    for (const [run, upTo] of ended) {
      const request = waiting.get(run);
      if (request === undefined || request.seq > upTo || hasRejoined(request)) ended.delete(run);
    }
  }

  function ledgerChanged({ requests, leases }: Ledger, isRecovering: boolean): void {
    if (requests === last) return;
    const answered = new Map<string, number>();
    for (const { jobId, runId, seq, state } of leases.values())
      if (state !== "vacating") answered.set(`${jobId} ${runId}`, seq);
    if (!isRecovering)
      for (const request of requests.values())
        judge(request, answered.get(`${request.jobId} ${request.runId}`) ?? -1);
    noteHeardEnds(requests);
    last = requests;
  }

  function heard({ jobId, runId, seq, requestedAtMs }: Word): void {
    if (typeof seq !== "number" || typeof requestedAtMs !== "number") return;
    const run = `${jobId as string} ${runId as string}`;
    asked.set(run, Math.max(seq, asked.get(run) ?? 0));
    const key = `${run} ${seq}`;
    const mayAskAnew = reset.has(jobId) || !begun.has(runId);
    // What was said before, a worker may bring late.
    if (requestedAtMs > (leftAtMs.get(key) ?? Infinity) && !mayAskAnew)
      violate("who has left asks under another number", `${key} asks after it has left its lobby`);
    latestMs = Math.max(latestMs, requestedAtMs);
  }

  function over({ jobId, runId, seq, lease }: Word): void {
    if (typeof seq !== "number" || lease !== undefined) return;
    const run = `${jobId as string} ${runId as string}`;
    ended.set(run, Math.max(seq, ended.get(run) ?? 0));
  }

  return {
    ledgerChanged,
    fleetTold: (entries) => {
      if (!Array.isArray(entries)) return;
      for (const entry of entries as readonly unknown[]) {
        if (!isFields(entry)) continue;
        if (entry["kind"] === "end") over(entry);
        if (entry["kind"] === "request" && isFields(entry["request"])) heard(entry["request"]);
      }
    },
    jobReset: (job) => void reset.add(job),
    runBegan: (runId) => void begun.add(runId),
    leftLobby: (leave, atMs) => {
      latestMs = Math.max(latestMs, atMs);
      if (!isFields(leave)) return;
      const { jobId, runId, seq } = leave;
      if (typeof jobId !== "string" || typeof runId !== "string" || typeof seq !== "number") return;
      const run = `${jobId} ${runId}`;
      // A run that was reset may leave under a number that the run before has asked under.
      if (seq > (asked.get(run) ?? 0) && !reset.has(jobId))
        violate("nobody leaves before he asks", `${run} leaves under number ${seq}`);
      leftAtMs.set(`${run} ${seq}`, latestMs);
    },
  };
}
