/**
 * @file What must come to its end soon once all is well, and not before its time: what costs time alone breaks no other law, because something else mends it later.
 *
 * A credit that a lobby got comes back, or is used; a grant to a job that had ended before is taken back when it cannot be delivered; a job without GPUs ends
 * at its deadline; a lobby calls nobody of whom it has heard that he has left it, and nothing since. Only what happens in the calm is judged: what was lost before may take its time. Cost: O(leases + credits) for a
 * ledger that has changed; O(rows) for a word to a lobby.
 */

import type { JobId, LeaseId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Witness } from "../hosts/witness.ts";
import { CALM_AT_MS } from "../settings.ts";

export interface PromptLaws {
  readonly ledgerChanged: (ledger: Ledger) => void;
  /** A job has decided to end, whose deadline is or was at that time. */
  readonly endedBy: (job: JobId, deadlineAtMs: number) => void;
  /** `token`: the highest that any ledger had given by then; `how`: as its workflow's end is named. */
  readonly jobEnded: (job: JobId, end: { readonly token: number; readonly how: string }) => void;
  /** Not before its fence is over, by the world's own clock. */
  readonly cutOff: Witness["cutOff"];
  /** A word to a lobby. */
  readonly lobbyTold: (lobby: string, word: LobbyWord) => void;
  /** A lobby has called a job in. */
  readonly called: (lobby: string, call: Asked & { readonly credit: number }) => void;
}

export interface Calm {
  readonly nowMs: () => number;
  /** No fault strikes from then on, and no process is paused. */
  readonly calmAtMs: number;
  /** No process hears everything late from then on. */
  readonly heardAtMs: number;
}

export interface LobbyWord {
  readonly name: string;
  readonly payload?: unknown;
  /** By the server's clock. */
  readonly atMs: number;
  /** Torn by a stranger: what of it is whole may be read. */
  readonly isBroken?: true;
}

/** A request of a run of a job. */
export interface Asked {
  readonly jobId: JobId;
  readonly runId: string;
  readonly seq: number;
}

/** Words that were under way when it became calm have arrived, or when the last process that was paused went on. */
const ARRIVED_MS = 15_000;
/** How much less than its fence a host may take for it: clocks drift. */
const CLOCKS_DIFFER = 0.97;
/** A stranger has put it into a copy of a request, so a job of another tenant waits in its lobby. A call does not name its lobby: the job uses the credit as its own tenant's. */
const TORN_TENANT = "\u0000";
/** Less than it takes the fleet to give one again. */
const CREDIT_MS = 50_000;
/** A job that is terminated at the moment of its call keeps the credit until the fleet has given it again. */
const CREDIT_OF_TERMINATED_MS = 180_000;
/** Less than the pause between two audits. */
const GRANT_MS = 12_000;
/** What a job without GPUs may take to end once it is late. */
const DEADLINE_MS = 45_000;
const CALL_MS = 3_000;
/** A call that was under way when the job left, before it became calm. */
const EARLY_CALL_MS = 30_000;

export function createPromptLaws(
  { nowMs, calmAtMs, heardAtMs }: Calm,
  violate: (law: string, message: string) => void,
): PromptLaws {
  const judgedFromMs = calmAtMs + ARRIVED_MS;
  /** The highest token by the end of a job: a later one was granted to nobody. */
  const ended = new Map<JobId, number>();
  /** The last leave that a lobby heard of a run, and no row since. */
  const left = new Map<string, { readonly seq: number; readonly atMs: number }>();
  let credits: ReadonlyMap<string, number> = new Map();
  const calledWith = new Map<number, JobId>();
  const terminated = new Set<JobId>();
  /** When another job was called with the credit of one that was terminated. */
  const passedOnAtMs = new Map<number, number>();
  let leases: ReadonlyMap<LeaseId, number> = new Map();
  let holders: ReadonlySet<JobId> = new Set();
  /** When a ledger had a lease of the job last. */
  const heldAtMs = new Map<JobId, number>();
  const late = (sinceMs: number, mostMs: number): boolean =>
    sinceMs > judgedFromMs && nowMs() > sinceMs + mostMs;

  function checkCredits({ intake }: Ledger): void {
    const present = new Map<string, number>();
    for (const [lobby, account] of intake?.lobbies ?? []) {
      if (lobby === TORN_TENANT) continue;
      for (const number of account.credits.keys()) {
        const key = `${lobby} ${number}`;
        const sinceMs = credits.get(key) ?? nowMs();
        const job = calledWith.get(number);
        const isTerminated = job !== undefined && terminated.has(job);
        const mostMs = isTerminated ? CREDIT_OF_TERMINATED_MS : CREDIT_MS;
        present.set(key, sinceMs);
        if (late(Math.max(sinceMs, passedOnAtMs.get(number) ?? 0), mostMs))
          violate("credits return", `credit ${number} of lobby ${lobby} has not come back`);
      }
    }
    credits = present;
  }

  return {
    ledgerChanged: (ledger) => {
      for (const job of holders) heldAtMs.set(job, nowMs());
      holders = new Set([...ledger.leases.values()].map(({ jobId }) => jobId));
      if (nowMs() < CALM_AT_MS) return;
      checkCredits(ledger);
      const present = new Map<LeaseId, number>();
      for (const { id, jobId, token } of ledger.leases.values()) {
        const sinceMs = leases.get(id) ?? nowMs();
        present.set(id, sinceMs);
        const isForNobody = (ended.get(jobId) ?? Infinity) < token;
        if (isForNobody && late(sinceMs, GRANT_MS))
          violate("grants in vain return", `${id} was granted to ${jobId}, which had ended`);
      }
      leases = present;
    },
    endedBy: (job, deadlineAtMs) => {
      const sinceMs = Math.max(deadlineAtMs, judgedFromMs, heardAtMs, heldAtMs.get(job) ?? 0);
      if (!holders.has(job) && nowMs() > sinceMs + DEADLINE_MS)
        violate("deadlines are kept", `${job} ends long after its deadline, and had no GPUs`);
    },
    jobEnded: (job, { token, how }) => {
      ended.set(job, token);
      if (how === "terminated") terminated.add(job);
    },
    cutOff: (host, { forMs, fenceMs }) => {
      if (forMs < fenceMs * CLOCKS_DIFFER)
        violate("fences take their time", `${host} was cut off for ${Math.round(forMs)} ms only`);
    },
    lobbyTold: (lobby, { name, payload, isBroken }) => {
      // Also what a stranger makes of such words: a row of which nothing is torn is a row that comes late.
      const word = (payload ?? {}) as Partial<Asked & { readonly rows: readonly Partial<Asked>[] }>;
      if (name === "lobby-leave" && isBroken !== true && typeof word.seq === "number")
        left.set(placeOf(lobby, word), { seq: word.seq, atMs: nowMs() });
      if (name === "lobby-news" && Array.isArray(word.rows))
        for (const row of word.rows) if (isWhole(row ?? {})) left.delete(placeOf(lobby, row ?? {}));
    },
    called: (lobby, call) => {
      const former = calledWith.get(call.credit);
      if (former !== undefined && former !== call.jobId && terminated.has(former))
        passedOnAtMs.set(call.credit, nowMs());
      calledWith.set(call.credit, call.jobId);
      const { seq, atMs } = left.get(placeOf(lobby, call)) ?? { seq: -1, atMs: 0 };
      const mostMs = atMs > judgedFromMs ? CALL_MS : EARLY_CALL_MS;
      if (call.seq <= seq && nowMs() > Math.max(judgedFromMs, atMs + mostMs))
        violate("who has left is not called", `${call.jobId} has left, and is called in`);
    },
  };
}

/** A lobby reads no row in which a stranger has put something else than words and numbers. */
const isWhole = (row: Readonly<Record<string, unknown>>): boolean =>
  Object.values(row).every((value) => typeof value === "string" || typeof value === "number");

export const placeOf = (lobby: string, { jobId, runId }: Partial<Asked>): string =>
  `${lobby} ${jobId} ${runId}`;
