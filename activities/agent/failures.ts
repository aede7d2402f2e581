/** @file Failures of an agent's activities: a code of `domain/codes.ts` as type, never retried by Temporal: the job decides. */

import { ApplicationFailure } from "@temporalio/activity";
import type { FailureCode } from "../../domain/codes.ts";

export const failure = (code: FailureCode, message: string): ApplicationFailure =>
  ApplicationFailure.nonRetryable(message, code);
