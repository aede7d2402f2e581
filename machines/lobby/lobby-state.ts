/** @file The state of a lobby, the events that change it and the commands that it gives. */

import { JOB_CLASSES, type JobClass } from "../../domain/job/job.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { LobbyCredit, LobbyRow, WaitingByClass } from "../../domain/lease/lobby.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import type {
  CallOrder,
  Leaver,
  LobbyInput,
  LostRows,
  MergeOrder,
  PackedRow,
  RunRest,
  StoredRun,
} from "../../protocol/lobby-contract.ts";
import type { Step } from "../machine.ts";
import { waitingIn, type Queue } from "./queue.ts";

export interface Lobby {
  readonly fleet: string;
  readonly tenant: TenantId;
  /** Signals that have not been looked at, the newest first. */
  readonly arrivals: Arrival | undefined;
  readonly queues: Readonly<Record<JobClass, Queue>>;
  /** Not used yet, the oldest first. */
  readonly credits: readonly LobbyCredit[];
  /** The latest, by the numbers of their credits. */
  readonly called: ReadonlyMap<number, Called>;
  /** Of a run that began when the leave of a job that had heard of two credits freed one of them. */
  readonly freesOne?: true;
  /** Of a run that began when a call was forgotten once its job was outside with a further request, and its credit with it. */
  readonly forgetsCalls?: true;
  /** Of a run that began when a lobby that is to report again forgot all its credits. */
  readonly forgetsAll?: true;
  /** Credits that nobody is left for, not yet told to the fleet. */
  readonly returned: readonly number[];
  readonly calling?: {
    readonly id: number;
    readonly calls: ReadonlyMap<number, Called>;
    /** Credits of those who have left since. */
    readonly left?: ReadonlySet<number>;
  };
  readonly storing?: Storing;
  readonly telling?: {
    readonly id: number;
    readonly reported: Reported;
    readonly returned: number;
    /** Rows came or jobs left while it was on its way, so the fleet may take it for more than it says. */
    readonly isOld?: true;
  };
  /** Runs that were ended by hand, and whose signals are to be told again. */
  readonly former: readonly string[];
  readonly retellingId?: number;
  /** Of a run that began when a lobby reported before it had heard what its former runs were told. */
  readonly reportsEarly?: true;
  /** Whether rows were lost and the jobs are to speak for themselves. */
  readonly isMusterDue: boolean;
  readonly musterId?: number;
  /** What the fleet was told last; absent until then, and when it has forgotten it. */
  readonly reported?: Reported;
  /** The last report's number. */
  readonly reports: number;
  /** No count is told before. */
  readonly tellAtMs: number;
  /** No credit goes back before: the fleet did not answer. */
  readonly retryAtMs: number;
  /** When it last had something to do or to keep. */
  readonly busyAtMs: number;
  /** Keys in the store that are not needed any more: since this run began, and since the one before it. */
  readonly unused: { readonly now: readonly string[]; readonly before: readonly string[] };
  readonly nextId: number;
  /** Of the workflow: tells this run's pages from those of others. */
  readonly runId: string;
  readonly spent: { readonly events: number; readonly bytes: number };
  readonly isStirred: boolean;
  /** Over: nobody waits, or a new run is to go on with `next`. */
  readonly end?: { readonly next?: LobbyInput };
}

interface Reported {
  readonly waiting: WaitingByClass;
}

export interface Arrival {
  readonly word: LobbyWord;
  readonly before: Arrival | undefined;
}

/** Signals as they came: their payloads may be junk. */
export type LobbyWord =
  | { readonly kind: "news"; readonly news: unknown }
  | { readonly kind: "leave"; readonly leave: unknown }
  /** The fleet has lost its ledger. */
  | { readonly kind: "report-again"; readonly again?: unknown };

export interface Called {
  readonly credit: LobbyCredit;
  readonly row: LobbyRow;
  readonly atMs: number;
  /** The job waits outside with a further request: it has used the credit for this one, or its leave for this one alone frees it. */
  readonly isOvertaken?: true;
}

/** What the store is doing, for the queue of one class. */
export type Storing = { readonly id: number; readonly class: JobClass } & (
  | { readonly kind: "keep" }
  | { readonly kind: "keep-leavers"; readonly leavers: readonly Leaver[] }
  | { readonly kind: "load"; readonly directories: readonly string[] }
  | { readonly kind: "merge"; readonly order: MergeOrder }
);

export type LobbyEvent =
  | LobbyWord
  /** A signal of a name that nobody sends. */
  | { readonly kind: "junk" }
  /** `isFormer`: of a run that began when one credit could be there twice; `isDeaf`: when a leave of one who was called under two credits freed one of them alone. */
  | {
      readonly kind: "called";
      readonly id: number;
      readonly gone: readonly number[];
      readonly isFormer?: boolean;
      readonly isDeaf?: boolean;
    }
  | { readonly kind: "kept"; readonly id: number; readonly run: StoredRun }
  | { readonly kind: "leavers-kept"; readonly id: number; readonly key: string }
  | {
      readonly kind: "loaded";
      readonly id: number;
      readonly rows: readonly (readonly PackedRow[])[];
    }
  | { readonly kind: "merged"; readonly id: number; readonly run: StoredRun }
  | ({ readonly id: number } & LostRows)
  /** `isHeard`: the fleet has the report. */
  /** `isFormer`: of a run that began when a report on its way was never old. */
  | {
      readonly kind: "told";
      readonly id: number;
      readonly isHeard: boolean;
      readonly isFormer?: boolean;
    }
  | { readonly kind: "mustered"; readonly id: number }
  | { readonly kind: "retold"; readonly id: number };

export type LobbyCommand =
  /** Answered by `called`. */
  | { readonly kind: "call-in"; readonly id: number; readonly calls: readonly CallOrder[] }
  /** Answered by `kept`. */
  | {
      readonly kind: "keep-rows";
      readonly id: number;
      readonly name: string;
      readonly rows: readonly PackedRow[];
    }
  /** Answered by `leavers-kept`. */
  | {
      readonly kind: "keep-leavers";
      readonly id: number;
      readonly name: string;
      readonly leavers: readonly Leaver[];
    }
  /** Answered by `loaded` or `lost`. */
  | {
      readonly kind: "load";
      readonly id: number;
      readonly runs: readonly RunRest[];
      readonly maxBytes: number;
    }
  /** Answered by `merged` or `lost`. */
  | { readonly kind: "merge"; readonly id: number; readonly order: MergeOrder }
  /** Answered by `told`. */
  | { readonly kind: "tell"; readonly id: number; readonly entry: InboxEntry }
  /** Answered by `retold`. */
  | { readonly kind: "retell"; readonly id: number; readonly runs: readonly string[] }
  /** Answered by `mustered`. */
  | { readonly kind: "muster"; readonly id: number };

export type LobbyStep = Step<Lobby, LobbyCommand>;

export const waitingByClass = ({ queues }: Pick<Lobby, "queues">): WaitingByClass => ({
  inference: waitingIn(queues.inference),
  interactive: waitingIn(queues.interactive),
  training: waitingIn(queues.training),
});

/** Whether former runs were told of jobs of which this one has yet to hear. */
export const isRetelling = ({ former, reportsEarly }: Lobby): boolean =>
  former.length > 0 && reportsEarly !== true;

export const totalOf = (waiting: WaitingByClass): number =>
  JOB_CLASSES.reduce((sum, name) => sum + waiting[name], 0);

export const changeQueue = (lobby: Lobby, queue: Queue): Lobby => ({
  ...lobby,
  queues: { ...lobby.queues, [queue.class]: queue },
});

/** Events of history at most: a signal and the workflow task for it; a timer and its end; an activity and its end. */
export const COST = { signal: 4, timer: 6, activity: 8 } as const;
const BYTES_AN_EVENT = 500;

export const spend = (lobby: Lobby, events: number, payload?: unknown): Lobby => {
  const bytes =
    BYTES_AN_EVENT + (payload === undefined ? 0 : (JSON.stringify(payload) ?? "").length);
  const { spent } = lobby;
  return { ...lobby, spent: { events: spent.events + events, bytes: spent.bytes + bytes } };
};

/** Gives a command that will be answered, under the next id. */
export function issue(
  lobby: Lobby,
  make: (id: number) => { readonly command: LobbyCommand; readonly change: Partial<Lobby> },
): LobbyStep {
  const { command, change } = make(lobby.nextId);
  const issued = { ...lobby, ...change, nextId: lobby.nextId + 1 };
  return { state: spend(issued, COST.activity, command), commands: [command] };
}
