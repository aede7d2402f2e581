/**
 * @file How an activity of the agent ends otherwise than by an answer, in the error classes of the Temporal SDK: data, no connection.
 *
 * A failure carries a code of `domain/values/codes.ts` as its type, and Temporal does not retry it: the job decides.
 */

import { ApplicationFailure, CancelledFailure, CompleteAsyncError } from "@temporalio/activity";
import type { FailureCode } from "../../domain/values/codes.ts";
import type { HostFault } from "../../protocol/agent-contract.ts";

export const failure = (code: FailureCode, message: string): Error =>
  ApplicationFailure.nonRetryable(message, code);

/** A GPU of the launch has broken, and it runs on: the job is to stop it. */
export const hostFault = (message: string, fault: HostFault): Error =>
  ApplicationFailure.create({ message, type: "HOST_LOST", nonRetryable: true, details: [fault] });

/** A failure that may pass by itself: Temporal tries again. */
export const passingFailure = (code: FailureCode, message: string): Error =>
  ApplicationFailure.retryable(message, code);

/** The attempt stops because it was told to, and another one follows. */
export const stoppedWatching = (message: string): Error => new CancelledFailure(message);

/** The function returns and the activity stays open: its end is reported by a call, or not at all. */
export const staysOpen = (): Error => new CompleteAsyncError();
