/** @file Whether a fleet's signal to a job is what it claims to be: junk must not be run, and is counted. */

import type { PendingReason } from "../../domain/lease/pending.ts";
import type { HostId, LeaseId } from "../../domain/values/ids.ts";
import type { Grant, WaitNote } from "../../protocol/job.ts";
import type { LobbyCall } from "../../protocol/lobby.ts";
import { isPreemptOrder } from "../gang/preemption.ts";
import { isFields } from "../../lib/fields.ts";

/** A signal of a known name, as an event of a job or an array, whose value is not what such signals say. */
export function saysNothing(event: SaidToJob): boolean {
  switch (event.kind) {
    case "grant":
      return !isGrant(event.offer);
    case "grants":
      return !Array.isArray(event.offers) || !event.offers.some(isGrant);
    case "pending":
      return !isWaitNote(event.note);
    case "preempt":
      return !isPreemptOrder(event.order);
    case "fenced":
      return !isHostLoss(event.loss);
    case "call-in":
      return !isLobbyCall(event.call);
    default:
      return false;
  }
}

/** All that may be said in a signal; each kind has one of them. */
interface SaidToJob {
  readonly kind: string;
  readonly offer?: unknown;
  readonly offers?: unknown;
  readonly note?: unknown;
  readonly order?: unknown;
  readonly loss?: unknown;
  readonly call?: unknown;
}

export function isGrant(value: unknown): value is Grant {
  if (!isFields(value) || !Number.isSafeInteger(value["seq"])) return false;
  const { lease, agents } = value;
  if (!Array.isArray(agents) || !isFields(lease) || !Array.isArray(lease["gpus"])) return false;
  const parts: readonly unknown[] = lease["gpus"];
  return (
    typeof lease["id"] === "string" &&
    typeof lease["runId"] === "string" &&
    parts.length > 0 &&
    parts.every((part) => isFields(part) && typeof part["host"] === "string")
  );
}

/** The request that the reason is for is checked by its number. */
export const isWaitNote = (value: unknown): value is WaitNote =>
  isFields(value) && typeof value["seq"] === "number" && isReason(value["reason"]);

const isReason = (value: unknown): value is PendingReason =>
  isFields(value) &&
  typeof value["code"] === "string" &&
  typeof value["message"] === "string" &&
  Array.isArray(value["holders"]);

export const isLobbyCall = (value: unknown): value is LobbyCall =>
  isFields(value) &&
  [value["seq"], value["credit"], value["round"]].every((each) => Number.isSafeInteger(each));

/** Hosts of a lease on which nothing of it counts any more. */
export interface HostLoss {
  readonly lease: LeaseId;
  readonly hosts: readonly HostId[];
}

export const isHostLoss = (value: unknown): value is HostLoss =>
  isFields(value) && typeof value["lease"] === "string" && Array.isArray(value["hosts"]);
