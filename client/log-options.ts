/** @file Which logs of a job are read, and the job that they are read of. */

import type { Client } from "@temporalio/client";
import type { Identity } from "../access/own-identity.ts";
import type { JobId } from "../domain/values/ids.ts";
import type { AttemptView, JobView } from "../protocol/messages.ts";

export interface LogOptions {
  /** The task of a job array whose log is read; an array itself has no log. */
  readonly task?: number;
  /** Rank 0 when absent. */
  readonly rank?: number | "all";
  /** Follows the log until the job has ended, over all later attempts. */
  readonly follow?: boolean;
  /** Only the last lines of each rank. */
  readonly tail?: number;
  /** Counted from 1; the last one when absent. */
  readonly attempt?: number;
  /** Whose key shows hosts who reads; the user's own when absent. */
  readonly reader?: () => Identity;
  /** Called with each attempt before its first text. */
  readonly onAttempt?: (attempt: AttemptView) => void;
  /** Called with each ended attempt after its last text. */
  readonly onAttemptEnd?: (jobId: JobId, attempt: AttemptView) => void;
  /** Called when rotation has dropped a part of the text that would come next. */
  readonly onDropped?: (rank: number, bytes: number) => void;
  /** Called when the host of a rank that is followed has not answered; its log goes on when it does. */
  readonly onLost?: (rank: number) => void;
}

export interface LoggedJob {
  readonly client: Client;
  readonly jobId: JobId;
  readonly view: () => Promise<JobView>;
}
