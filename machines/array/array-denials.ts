/**
 * @file Leases that a host runs and that an array does not hold, by the names that its fleet asks about: a host that was fenced while it ran one may say so
 * after the array has given it back, to a fleet that has forgotten that. A fleet that has lost its ledger may also have been told of a lease after its end, by a worker that
 * was frozen: where it asks for everything, the array ends those that it has told it of and holds no more.
 */

import type { LeaseId } from "../../domain/values/ids.ts";
import { isFields } from "../../lib/fields.ts";
import { DENYING_RULES, LATE_ASSERTION_RULES } from "../../protocol/control-contract.ts";
import { forEach, quiet } from "../steps.ts";
import { tellAside } from "./array-requests.ts";
import type { ArrayStep, JobArray } from "./array-state.ts";

/** Of one question. */
const MOST_DENIED = 100;

/** Ends those of the leases named that the array does not hold, or of those asserted before where none is named; a late grant of such a lease starts nothing. */
export function denyLeases(array: JobArray, question: unknown): ArrayStep {
  if (array.rules < DENYING_RULES || array.phase.kind !== "open") return quiet(array);
  const named = doubted(question);
  const denied = (named.length > 0 ? named : toldBefore(array)).filter(
    (lease) => !array.leases.has(lease) && !array.arrivals.has(lease),
  );
  const { jobId, runId, requests } = array;
  return forEach(
    { ...array, seen: new Set([...array.seen, ...denied]) },
    denied,
    (before: JobArray, lease) =>
      tellAside(before, {
        kind: "end",
        jobId,
        runId,
        seq: requests.seq,
        lease,
        unconfirmedHosts: "all",
      }),
  );
}

/** A fleet that doubts no lease in particular has lost its ledger: a frozen worker may have told it of these after their end. */
const toldBefore = ({ rules, requests }: JobArray): readonly LeaseId[] =>
  rules >= LATE_ASSERTION_RULES ? [...requests.asserted].slice(-MOST_DENIED) : [];

/** Nothing where the question names none. */
function doubted(question: unknown): readonly LeaseId[] {
  const named = isFields(question) ? question["leases"] : undefined;
  if (!Array.isArray(named)) return [];
  const ids = (named as readonly unknown[]).filter((id) => typeof id === "string");
  return [...new Set(ids)].slice(0, MOST_DENIED) as LeaseId[]; // as the fleet names them
}
