/**
 * @file The kind of a request: requests of one kind are interchangeable for a cycle, except for their age.
 *
 * Requests of one class and tenant that ask for the same gang under the same constraints are of one kind: if one of them finds no
 * GPUs in a cycle, none of the others finds any. Age can still separate them: one may take a smaller gang while another waits for its
 * gang timeout, and time limits decide which may be backfilled. A cycle may therefore dismiss a kind only if even the most that any
 * request of the kind accepts cannot be had.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import { canShrink } from "../ledger/rules/grant-check.ts";

/** Requests with the same string are of one kind. */
export type Kind = (request: PendingRequest) => string;

export const kindOf: Kind = ({ class: jobClass, tenant, gang, constraints, avoidHosts, slots }) =>
  JSON.stringify([
    jobClass,
    tenant,
    gang.gpus,
    gang.min,
    gang.shapes,
    // Until then it takes its whole gang only; one that takes no less ever has no use for it.
    canShrink(gang) ? gang.timeoutMs : undefined,
    constraints,
    avoidHosts,
    slots !== undefined,
  ]);
