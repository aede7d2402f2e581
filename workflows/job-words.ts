/**
 * @file What a job tells its fleets beside asking for GPUs: that requests are over, what it holds when a fleet has forgotten, and that it leaves.
 *
 * A request number is only ever asked for at one fleet, and a job runs on the grant of its present number alone. So a word that comes late (a request
 * that was lost on the way and found again, a grant that was under way) can take GPUs for a moment, but never start the job twice: what is
 * granted for a number that is over is given back at every fleet of the ring. A fleet is left only when it has said that it holds nothing
 * of the job any more. Hidden mutable state, one a job.
 */

import { condition, proxyActivities, proxyLocalActivities, sleep } from "@temporalio/workflow";
import type { JobActivities, Told } from "../activities/control-contract.ts";
import type { JobId, RunId } from "../domain/ids.ts";
import type { GangRequest, Lease } from "../domain/lease.ts";
import type { InboxEntry } from "../scheduling/ledger.ts";
import type { Cells } from "./cells.ts";
import type { StopWish } from "./gang-run.ts";
import { factOf } from "./job-view.ts";
import { fleetWorkflowId, type Grant } from "./messages.ts";

/** A closed run's lease takes this long to be swept at best; a silent host may take its fence. */
const LEFT_LEASE_PAUSE_MS = 1_000;
const LEFT_LEASE_PAUSE_MAX_MS = 60_000;

const { hasLease } = proxyLocalActivities<Pick<JobActivities, "hasLease">>({
  startToCloseTimeout: "20s",
  retry: { initialInterval: "500ms", maximumInterval: "10s" },
});
const { tellFleet } = proxyLocalActivities<Pick<JobActivities, "tellFleet">>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});
/** No local activity: it may take as long as a fleet is away. */
const { untilForgotten } = proxyActivities<Pick<JobActivities, "untilForgotten">>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
});

export interface JobWords {
  /** One word at a time: several local activities end in another order on replay (docs/decisions/0014). */
  readonly tell: (entry: InboxEntry) => Promise<Told>;
  /** Takes the request back; from here on an answer to it is a stray. */
  readonly withdraw: () => Promise<void>;
  /** Takes it back, and waits until the fleet has nothing of the job; false when the job is to stop first. */
  readonly leave: () => Promise<boolean>;
  /** A fleet has lost its ledger, or doubts it: it wants to hear what there is. */
  readonly ask: () => void;
  readonly isAsked: () => boolean;
  /** An answer to a request that is over. */
  readonly stray: (seq: number) => void;
  /** Gives back what was granted for requests that are over, whatever the job does meanwhile. */
  readonly returnStrays: () => Promise<void>;
  /** Says again what there is to say, whenever a fleet asks. */
  readonly answerFleet: () => Promise<void>;
}

/** The job's own state, which it alone changes, but for the number of its request. */
export interface JobFacts {
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly cells: () => Cells;
  readonly wish: StopWish;
  readonly seq: () => number;
  /** The next request will have another number, and there is no grant. */
  readonly advance: () => void;
  readonly grant: () => Grant | undefined;
  /** Whether there is anything to answer at all: it was admitted, is no array, is not held and has not ended. */
  readonly mayAnswer: () => "yes" | "not-yet" | "never";
  /** The request that is in force; undefined when it waits for nothing. */
  readonly request: () => GangRequest | undefined;
}

export function createJobWords(of: JobFacts): JobWords {
  const { jobId, runId, wish } = of;
  /** The highest request that is over and was answered all the same. */
  let strayUpTo = 0;
  let isAsked = false;
  let isLeaving = false;
  /** A word to the fleet that is on its way. */
  let telling: Promise<unknown> | undefined;

  const endOf = (seq: number, unconfirmedHosts: readonly [] | "all" = []): InboxEntry => ({
    kind: "end",
    jobId,
    runId,
    seq,
    unconfirmedHosts,
  });

  return {
    tell,
    withdraw,
    leave,
    ask: () => {
      isAsked = true;
    },
    isAsked: () => isAsked,
    stray: (seq) => {
      strayUpTo = Math.max(strayUpTo, seq);
    },
    returnStrays,
    answerFleet,
  };

  /** To the fleet where the job is now, wherever it is when its turn comes. */
  async function tell(entry: InboxEntry, fleet = of.cells().here()): Promise<Told> {
    while (telling !== undefined) await telling;
    const told = tellFleet(fleetWorkflowId(fleet), entry);
    telling = told.catch(() => undefined);
    try {
      return await told;
    } finally {
      telling = undefined;
    }
  }

  async function withdraw(): Promise<void> {
    const over = of.seq();
    of.advance();
    await tell(endOf(over));
  }

  async function leave(): Promise<boolean> {
    const fleet = of.cells().here();
    let isForgotten = false;
    // Nothing new may be asked for here: not even by who answers for the job meanwhile.
    isLeaving = true;
    await withdraw();
    const forgotten = untilForgotten(fleetWorkflowId(fleet), jobId).then(() => {
      isForgotten = true;
    });
    // A failure that no retry can mend leaves the job where it is: waiting, and to be cancelled.
    forgotten.catch(() => undefined);
    await condition(() => isForgotten || wish.reason !== undefined);
    isLeaving = false;
    return isForgotten;
  }

  async function returnStrays(): Promise<void> {
    for (;;) {
      await condition(() => strayUpTo > 0);
      const over = strayUpTo;
      strayUpTo = 0;
      for (const fleet of of.cells().ring) await tell(endOf(over), fleet);
    }
  }

  /** A reset has given the workflow another run id, under which the fleet has never heard of it. */
  async function answerFleet(): Promise<void> {
    for (;;) {
      await condition(() => isAsked && of.mayAnswer() !== "not-yet");
      isAsked = false;
      if (of.mayAnswer() === "never") continue;
      if (of.seq() > 1) await tell(endOf(of.seq() - 1, "all"));
      const grant = of.grant();
      if (grant === undefined) {
        const request = isLeaving || wish.reason !== undefined ? undefined : of.request();
        if (request !== undefined) await tell({ kind: "request", request });
      } else if (grant.lease.runId === runId) {
        await tell({ kind: "assert", lease: factOf(grant.lease) });
      } else await leaveBehind(grant.lease);
    }
  }

  /**
   * The lease is that of a run that was reset: the fleet takes it back and has its hosts swept. When nothing of it is left, this
   * run's attempt on it is over, and the next one asks anew.
   */
  async function leaveBehind({ id: lease, gpus }: Lease): Promise<void> {
    const isHeld = (): boolean => of.grant()?.lease.id === lease;
    let pauseMs = LEFT_LEASE_PAUSE_MS;
    while (isHeld() && (await hasLease(fleetWorkflowId(of.cells().here()), lease))) {
      await sleep(pauseMs);
      pauseMs = Math.min(pauseMs * 2, LEFT_LEASE_PAUSE_MAX_MS);
    }
    if (isHeld()) for (const { host } of gpus) wish.fenced.add(host);
  }
}
