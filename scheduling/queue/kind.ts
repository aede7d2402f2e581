/**
 * @file Which requests are alike: what one of them cannot get in a cycle, none of the others can get.
 *
 * Alike are requests of one class and tenant that ask for the same gang under the same constraints. Their age still differs:
 * one may take a smaller gang when another must wait for its timeout first, and time limits decide who may be backfilled.
 * So a cycle may dismiss a kind only when not even the most that any of them would accept is to be had.
 */

import type { PendingRequest } from "../../domain/plan.ts";

/** Requests with the same word are alike. */
export type Kind = (request: PendingRequest) => string;

export const kindOf: Kind = ({ class: jobClass, tenant, gang, constraints, avoidHosts, slots }) =>
  JSON.stringify([
    jobClass,
    tenant,
    gang.gpus,
    gang.min,
    gang.shapes,
    gang.timeoutMs,
    constraints,
    avoidHosts,
    slots !== undefined,
  ]);
