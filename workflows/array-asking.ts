/**
 * @file What a job array asks its fleet for: keeps the request in step with what the array can use, and asserts what it holds.
 *
 * A request that is too small, or more than twice too large, is replaced by one with a higher number; one that is not needed any more is
 * withdrawn. The fleet lowers a request's slots with every grant, and so does the count here. Hidden mutable state, one an array.
 */

import { condition, proxyActivities, sleep } from "@temporalio/workflow";
import type { JobActivities, Told } from "../activities/control-contract.ts";
import { scheduledPart } from "../domain/gang-request.ts";
import type { HostId, LeaseId } from "../domain/ids.ts";
import type { GangRequest } from "../domain/lease.ts";
import type { ArrayJob } from "./array-view.ts";
import { hostsOf, type HeldLease } from "./held-lease.ts";
import { factOf, noFleet } from "./job-view.ts";
import type { Grant, JobView, WaitNote } from "./messages.ts";

const NO_FLEET_PAUSE_MS = 5_000;
const NO_FLEET_PAUSE_MAX_MS = 600_000;

/** No local activity: several at a time end in another order on replay (docs/decisions/0014). */
const { tellFleet } = proxyActivities<Pick<JobActivities, "tellFleet">>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

export interface Asking {
  /** Of the newest request. */
  readonly seq: () => number;
  /** Why the fleet grants no more, as far as the array was told. */
  readonly pending: () => JobView["pending"];
  /** Asks, and asks again, until the array is over. */
  readonly keep: () => Promise<void>;
  readonly granted: (offer: Grant) => void;
  readonly note: (note: WaitNote | undefined) => void;
  /** The fleet wants to hear again what there is. */
  readonly again: () => void;
  /** An update has changed what is wanted. */
  readonly heed: () => void;
  /** This host has refused. */
  readonly avoid: (host: HostId) => void;
}

export interface AskingPorts {
  /** What came of the request with which the job entered, and its slots. */
  readonly entered: Told;
  readonly first: number;
  readonly leases: ReadonlyMap<LeaseId, HeldLease>;
  /** Slots beyond those at hand that would have work now. */
  readonly wanted: () => number;
  readonly isOver: () => boolean;
  readonly show: () => void;
}

export function createAsking(
  { jobId, runId, fleet, fleetId, spec, submittedAtMs, wish }: ArrayJob,
  { entered, first, leases, wanted, isOver, show }: AskingPorts,
): Asking {
  const avoidHosts = new Set<HostId>();
  let seq = 1;
  /** Slots that the fleet has been asked for and has not granted. */
  let asked = entered.kind === "told" ? first : 0;
  let pending: JobView["pending"];
  let isAsked = false;
  /** What the fleet was asked for has changed in more than its slots. */
  let isOutdated = false;
  let isOrdered = false;

  return {
    seq: () => seq,
    pending: () => pending,
    keep,
    granted: (offer) => {
      if (offer.seq === seq) asked = Math.max(0, asked - (offer.lease.slots ?? 1));
      pending = undefined;
    },
    note: (note) => {
      if (note?.seq !== seq || asked === 0) return;
      pending = note.reason;
      show();
    },
    again: () => {
      isAsked = true;
    },
    heed: () => {
      isOrdered = true;
    },
    avoid: (host) => {
      avoidHosts.add(host);
      isOutdated = true;
    },
  };

  async function keep(): Promise<void> {
    let answer = entered;
    let pauseMs = NO_FLEET_PAUSE_MS;
    for (;;) {
      if (answer.kind === "no-fleet") {
        asked = 0;
        pending = noFleet(fleet, answer.message);
        show();
        await condition(() => isOver() || wish.reason !== undefined, pauseMs);
        pauseMs = Math.min(pauseMs * 2, NO_FLEET_PAUSE_MAX_MS);
        answer = { kind: "silent" };
      }
      await condition(() => isOver() || (wish.reason === undefined && hasWord()));
      if (isOver()) return;
      if (isOrdered) {
        // An update is only kept once this task is: what the fleet is told because of it must not go before it.
        isOrdered = false;
        await sleep(1);
        continue;
      }
      if (isAsked) await assertLeases();
      if (isCornered()) avoidHosts.clear();
      const slots = wanted();
      if (slots === 0 && asked === 0) continue;
      seq += 1;
      asked = slots;
      isOutdated = false;
      pending = undefined;
      answer = await tellFleet(fleetId, { kind: "request", request: requestOf(slots) });
    }
  }

  /** A request for far more than is wanted would take GPUs for a moment that others could use for longer. */
  function hasWord(): boolean {
    const slots = wanted();
    return (
      isAsked || slots > asked || 2 * slots < asked || (asked > 0 && (isOutdated || isCornered()))
    );
  }

  /** Without the hosts that refused there is nowhere to go: what refused once is asked again. */
  function isCornered(): boolean {
    return pending?.code === "NoMatchingFlavor" && avoidHosts.size > 0;
  }

  /** The seniority of an array without leases is that of its submission; with some it has had its turn. */
  function requestOf(slots: number): GangRequest {
    const nowMs = Date.now();
    return {
      ...scheduledPart(spec),
      slots,
      jobId,
      runId,
      seq,
      submittedAtMs: leases.size > 0 ? nowMs : submittedAtMs,
      requestedAtMs: nowMs,
      ...(avoidHosts.size > 0 && { avoidHosts: [...avoidHosts] }),
    };
  }

  /** After a reset the leases are those of a run that is no more: the fleet takes them back when this run asks. */
  async function assertLeases(): Promise<void> {
    isAsked = false;
    isOutdated = true;
    for (const held of [...leases.values()]) {
      const { lease } = held.grant;
      if (lease.runId === runId) await tellFleet(fleetId, { kind: "assert", lease: factOf(lease) });
      else for (const host of hostsOf(held)) held.fenced.add(host);
    }
    asked = 0;
  }
}
