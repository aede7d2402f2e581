/**
 * @file Every code of Orbweaver in one place: why a job waits, why a plan item was refused, why a run ended.
 *
 * `docs/errors.md` explains each; a test compares the two lists and their use in the code. Pending reasons follow Kueue's
 * vocabulary where it has a term.
 */

/** Why a job is not running. */
export const PENDING_CODES = [
  /** Held by its owner. */
  "OnHold",
  /** Jobs that it was submitted to follow have not come so far; it has asked no fleet for anything yet. */
  "WaitingForJobs",
  /** No scheduling cycle has considered the request yet. */
  "PendingEvaluation",
  /** No fleet answers; the job asks again. */
  "NoFleet",
  /** No host of this fleet could ever satisfy the request. */
  "NoMatchingFlavor",
  /** More than the tenant's quota and borrowing limit could ever allow. */
  "ExceedsMaxQuota",
  /** Within the quota, but other jobs of the tenant use it now. */
  "WaitingForQuota",
  /** Other jobs are being preempted for it. */
  "WaitingForPreempted",
  /** Power or cooling of every fitting cluster is used up. */
  "WaitingForPower",
  /** Hosts that would fit have no agent or are drained. */
  "WaitingForHosts",
  /** Enough GPUs are free, but not in the shape asked for (one host, one fabric, few clusters). */
  "TopologyPlacementFailed",
  /** Other leases hold the GPUs. */
  "WaitingForGpus",
  /** Enough GPUs are idle, but other leases hold the processors or the memory of their hosts. */
  "WaitingForResources",
  /** Would fit now, but the free GPUs are reserved for other jobs, or are for jobs before it in the queue. */
  "BehindEarlierJob",
  /** This fleet has not placed it within its patience: it asks the next of its fleets. */
  "PatienceOver",
  /** The fleet has no place for its request: it waits in its tenant's lobby until it is called in. */
  "QueueFull",
  /** An operator holds the queue of its tenant, of its class or of the whole fleet. */
  "QueueOnHold",
  /** Its gang has lost a host and keeps the others while a replacement is found. */
  "WaitingForReplacement",
] as const;
export type PendingCode = (typeof PENDING_CODES)[number];

/** Only a change of the fleet's or of the job's description would help. */
export const HOPELESS_CODES: ReadonlySet<PendingCode> = new Set([
  "NoMatchingFlavor",
  "ExceedsMaxQuota",
]);

/** Why `apply` refused one item of a plan or one inbox entry. */
export const REFUSAL_CODES = [
  "RequestGone",
  "RequestSuperseded",
  "HostUnknown",
  "HostUnavailable",
  "GpuTaken",
  "GpuReserved",
  "ResourcesTaken",
  "NotEvictable",
  "GangSizeWrong",
  "ConstraintBroken",
  "QuotaExceeded",
  "PowerExceeded",
  "EntryMalformed",
  "EntryTooLarge",
  "EntryUnproven",
  "TokenUnknown",
  "LedgerFull",
  "QueueHeld",
] as const;
export type RefusalCode = (typeof REFUSAL_CODES)[number];

/** Why a run or a job failed: the `type` of application failures. */
export const FAILURE_CODES = [
  /** The job description is wrong; never retried. */
  "MISCONFIGURED",
  /** A process ended with a non-zero status. */
  "PROCESS_EXITED",
  /** A process was killed by a signal that Orbweaver did not send. */
  "PROCESS_SIGNALLED",
  /** A process was killed because the job was at its limit of memory. */
  "OUT_OF_MEMORY",
  /** The command does not exist on the host or may not be executed. */
  "COMMAND_NOT_FOUND",
  /** A host could not look up a secret that the job names. */
  "SECRET_UNAVAILABLE",
  /** The run lasted longer than its time limit. */
  "TIME_LIMIT",
  /** Some tasks of a job array failed or were cancelled. */
  "TASKS_FAILED",
  /** A job that it was to follow can no longer end or start as it was to. */
  "DEPENDENCY_FAILED",
  /** The job did not end before its deadline. */
  "DEADLINE_EXCEEDED",
  /** A host refused to start its part of the gang. */
  "HOST_REFUSED",
  /** A host could not get the image of the job. */
  "IMAGE_UNAVAILABLE",
  /** A host could not get the folder that `--sync` has sent. */
  "FOLDER_UNAVAILABLE",
  /** Some hosts of the gang were not ready in time. */
  "GANG_NOT_READY",
  /** A host stopped answering while the job ran there. */
  "HOST_LOST",
  /** A stale order: its token is lower than one that the host has seen. */
  "STALE_TOKEN",
  /** Orbweaver stopped the run. */
  "STOPPED",
  /** The order names a run that the host does not know. */
  "RUN_UNKNOWN",
  /** The same key was used with another job description. */
  "IDEMPOTENCY_CONFLICT",
  /** A job, host, fleet or file that does not exist. */
  "NOT_FOUND",
  /** No end of other jobs would start the job on this fleet. */
  "NEVER_STARTS",
  /** The state of the job or host does not allow this. */
  "NOT_ALLOWED",
  /** Rules cannot be committed: a worker or agent that does not know them is alive. */
  "OLDER_PROCESSES_ALIVE",
  /** A file or flag that cannot be parsed. */
  "BAD_INPUT",
  /** The request is larger than a request may be. */
  "REQUEST_TOO_LARGE",
  /** A payload is encrypted with a key that is not at hand. */
  "ENCRYPTION_KEY_MISSING",
  /** A payload is damaged, forged, or larger than any of ours. */
  "PAYLOAD_UNREADABLE",
  /** No Temporal server could be found, downloaded or built. */
  "TEMPORAL_SERVER_UNAVAILABLE",
  /** The namespace lacks search attributes and they may not be added. */
  "SEARCH_ATTRIBUTES_MISSING",
  /** Nothing answers at the Temporal address. */
  "NO_CONNECTION",
  /** Another agent serves this host already. */
  "HOST_ALREADY_SERVED",
] as const;
export type FailureCode = (typeof FAILURE_CODES)[number];
