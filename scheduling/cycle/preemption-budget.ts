/**
 * @file How much preemption one cycle may look for, and the account of it, which is opened when it is first needed.
 *
 * At most `MAX_SEARCHES` requests search for victims, and one for moves; the others wait for the next cycle.
 * Cost: that of `openPreemption`, once, in cycles that need it.
 */

import type { HostGpus } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { noteGranted, openPreemption, type PreemptionAccount } from "../preemption/account.ts";
import type { CycleInput } from "./cycle-input.ts";
import { openFailedSearches, type FailedSearches } from "./failed-searches.ts";

const MAX_SEARCHES = 16;

export interface PreemptionBudget {
  readonly hasSearches: () => boolean;
  /** Takes one search for victims; false when none is left. */
  readonly takeSearch: () => boolean;
  /** The same of moves. */
  readonly takeMoveSearch: () => boolean;
  readonly noteGrant: (request: PendingRequest, gpus: readonly HostGpus[]) => void;
  /** With all grants of the cycle; undefined where the fleet does not preempt. */
  readonly account: () => PreemptionAccount | undefined;
  /** The same without the grants that were made before any request searched for victims. */
  readonly accountSoFar: () => PreemptionAccount | undefined;
  /** Some request could start if a lease were not protected any more. */
  readonly isShortOfVictims: () => boolean;
  readonly noteShortage: () => void;
  /** Searches by the order of service. */
  readonly failed: FailedSearches;
}

export function openPreemptionBudget(input: CycleInput): PreemptionBudget {
  const {
    cache,
    snapshot,
    nowMs,
    options: { policies, method },
  } = input;
  let searches = policies.isPreempting === true && method === "decide" ? MAX_SEARCHES : 0;
  let mayMove = true;
  let isShort = false;
  let opened: PreemptionAccount | undefined;
  let grants: { readonly request: PendingRequest; readonly gpus: readonly HostGpus[] }[] = [];
  return {
    hasSearches: () => searches > 0,
    takeSearch() {
      if (searches <= 0) return false;
      searches -= 1;
      isShort = true;
      return true;
    },
    takeMoveSearch() {
      const may = mayMove;
      mayMove = false;
      return may;
    },
    noteGrant(request, gpus) {
      if (grants.length === 0 && opened !== undefined) noteGranted(opened, request, gpus);
      else grants.push({ request, gpus });
    },
    account() {
      const account = accountSoFar();
      if (account === undefined) {
        searches = 0;
        return undefined;
      }
      for (const { request, gpus } of grants) noteGranted(account, request, gpus);
      grants = [];
      return account;
    },
    accountSoFar,
    failed: openFailedSearches(input),
    isShortOfVictims: () => isShort,
    noteShortage() {
      isShort = true;
    },
  };

  function accountSoFar(): PreemptionAccount | undefined {
    return (opened ??= openPreemption(snapshot, cache.capacity, { ...cache, nowMs }));
  }
}
