/**
 * @file Submits one job: reads the file, refuses it with all its problems before anything starts, and starts it at most once
 * per key.
 *
 * The key is the workflow id and is never used again, even after the job has ended. A second submission with the same key
 * returns the first job if both specs are equal after defaults.
 */

import {
  isGrpcServiceError,
  WorkflowExecutionAlreadyStartedError,
  type Client,
  type WorkflowStartOptions,
} from "@temporalio/client";
import type { SearchAttributePair } from "@temporalio/common";
import { signJob } from "../access/job-proof.ts";
import { ownIdentity, type Identity } from "../access/own-identity.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { jobId as toJobId, type JobId } from "../domain/values/ids.ts";
import { labelTexts } from "../domain/job/job-labels.ts";
import { diffJobSpecs, diffValues, type JobDifference } from "../domain/job/job-difference.ts";
import {
  formatProblem,
  parseJobFile,
  parseLocatedJob,
  readJobText,
  type JobFile,
  type ParsedJob,
  type RefusedFile,
} from "../domain/job/job-file.ts";
import { fileTooLarge, requestTooLarge, type TooLarge } from "../domain/lease/job-size.ts";
import type { JobSpec } from "../domain/job/job.ts";
import { fairLanes, type FairLanes } from "../lib/fair-lanes.ts";
import { patiently } from "./back-pressure.ts";
import {
  DEFAULT_FLEET,
  JOB_TASK_QUEUE,
  JOB_WORKFLOW,
  type JobOptions,
} from "../protocol/messages.ts";
import { tenantPriority } from "../protocol/fair-tasks.ts";
import { contentOfSpec, PROOF_MEMO } from "../protocol/signed-job.ts";
import { firstInput } from "./first-input.ts";
import { checkStart } from "./never-starts.ts";
import { checkPredecessors } from "./predecessors.ts";
import { checkFit } from "./fleet-fit.ts";
import {
  CLASS_KEY,
  FLEET_KEY,
  GPUS_KEY,
  LABELS_KEY,
  NAME_KEY,
  STATE_KEY,
  TENANT_KEY,
  USER_KEY,
} from "./search-keys.ts";
import { translated } from "./server-error.ts";
import { randomSuffix } from "./job-suffix.ts";

export interface SubmitOptions {
  /** The job's id; the same key submits the same job once. Absent: derived from the name and six random characters. */
  readonly idempotencyKey?: string;
  readonly fleet?: string;
  /** Name of the text in problems, e.g. its path. */
  readonly file?: string;
  /** Called when the job could not be signed as the user's, with the reason: only hosts that trust the whole namespace run it. */
  readonly onUnsigned?: (why: string) => void;
  /** Called with what could not be compared with the fleet, which does not answer: resources, which hosts refuse by themselves, or addresses of notices. */
  readonly onUnchecked?: (why: string) => void;
  /** Also a job that no end of other jobs would start on this fleet, for one that is to change. */
  readonly isQueuedAnyway?: boolean;
  /** Whose key signs, in whose name; the user's own when absent. A submit service signs in the name of who asks it. */
  readonly signer?: () => Identity;
  /** Called with what was read, before anything is started; what it throws is thrown. */
  readonly admit?: (job: {
    readonly jobId: JobId;
    readonly spec: JobSpec;
    readonly fleet: string;
  }) => void;
  /** Whether its submitter may see a job that it is to wait for; absent: any. */
  readonly maySee?: (job: JobId) => Promise<boolean>;
}

export interface Submitted {
  readonly jobId: JobId;
  /** False when the key had been used for the same job before. */
  readonly isNew: boolean;
}

/** A job that can be started: the file as written, and its spec. */
export interface ReadJob {
  readonly file: JobFile;
  readonly spec: JobSpec;
  readonly notices: ParsedJob["notices"];
  /** The idempotency key of the file. */
  readonly key?: string;
}

export async function submitJob(
  client: Client,
  source: JobFile | string,
  options: SubmitOptions,
): Promise<Submitted> {
  const { idempotencyKey } = options;
  const written = readJob(source, options.file);
  const { file, spec, notices, key } =
    idempotencyKey === undefined ? written : readJob({ ...written.file, idempotencyKey });
  checkSize(requestTooLarge(spec));
  const jobId = toJobId(key ?? `${spec.name}-${randomSuffix()}`);
  const fleet = options.fleet ?? DEFAULT_FLEET;
  options.admit?.({ jobId, spec, fleet });
  await insist(client, { jobId, spec, notices, fleet, isKeyed: key !== undefined }, options);
  const jobOptions: readonly JobOptions[] = fleet === DEFAULT_FLEET ? [] : [{ fleet }];
  const { memo, user } = signature(jobId, spec, options);
  const start: JobStart = {
    workflowId: jobId,
    taskQueue: JOB_TASK_QUEUE,
    args: [file, ...jobOptions],
    workflowIdReusePolicy: "REJECT_DUPLICATE",
    typedSearchAttributes: [
      { key: FLEET_KEY, value: fleet },
      { key: CLASS_KEY, value: spec.class },
      { key: TENANT_KEY, value: spec.tenant },
      { key: STATE_KEY, value: spec.isHeld ? "held" : "pending" },
      { key: GPUS_KEY, value: spec.gang.gpus },
      { key: NAME_KEY, value: spec.name },
      ...(user === undefined ? [] : [{ key: USER_KEY, value: user }]),
      ...(spec.labels === undefined
        ? []
        : [{ key: LABELS_KEY, value: [...labelTexts(spec.labels)] }]),
    ],
    staticSummary: summaryOf(spec),
    priority: tenantPriority(spec.tenant),
    ...(memo !== undefined && { memo }),
  };
  try {
    await lanesOf(client).run(spec.tenant, () => patiently(() => started(client, start)));
    return { jobId, isNew: true };
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
      throw translated(error, `job ${jobId}`);
    }
    await checkSame(client, jobId, { spec, notices, fleet });
    // An id that was drawn here belongs to a start whose answer was lost.
    return { jobId, isNew: key === undefined };
  }
}

/** A submission that is repeated is answered as before, whatever the server has forgotten since. */
async function insist(
  client: Client,
  {
    jobId,
    spec,
    notices,
    fleet,
    isKeyed,
  }: Pick<ReadJob, "spec" | "notices"> & {
    readonly jobId: JobId;
    readonly fleet: string;
    readonly isKeyed: boolean;
  },
  { maySee, onUnchecked, isQueuedAnyway }: SubmitOptions,
): Promise<void> {
  try {
    await checkPredecessors(client, spec, maySee);
    await checkFit(client, { spec, notices }, { fleet, ...(onUnchecked && { onUnchecked }) });
    if (isQueuedAnyway !== true) await checkStart(client, spec, fleet);
  } catch (error) {
    const isKnown =
      isKeyed && (await firstInput(client, jobId).catch(() => undefined)) !== undefined;
    if (!isKnown) throw error;
  }
}

/**
 * Starts in flight of one client, in turns by tenant. A server writes one after the other all the same, and what waits in its front
 * delays the steps of every running job (docs/decisions/0104-floods-of-jobs.md).
 */
const MOST_STARTS = 8;
const LANES = new WeakMap<Client, FairLanes>();

function lanesOf(client: Client): FairLanes {
  const lanes = LANES.get(client) ?? fairLanes(MOST_STARTS);
  LANES.set(client, lanes);
  return lanes;
}

/** Workers of former releases have not registered what only lists read, and a job must not fail for that. */
async function started(client: Client, start: JobStart): Promise<void> {
  try {
    await client.workflow.start(JOB_WORKFLOW, start);
  } catch (error) {
    if (!lacksAttribute(error)) throw error;
    const known = start.typedSearchAttributes.filter(
      ({ key }) => !FOR_LISTS.some(({ name }) => name === key.name),
    );
    await client.workflow.start(JOB_WORKFLOW, { ...start, typedSearchAttributes: known });
  }
}

type JobStart = WorkflowStartOptions & {
  readonly typedSearchAttributes: readonly SearchAttributePair[];
};

const FOR_LISTS = [NAME_KEY, USER_KEY, LABELS_KEY] as const;

/** In the server's words: `Namespace default has no mapping defined for search attribute OrbweaverName`. */
function lacksAttribute(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    const said = isGrpcServiceError(at) ? at.details : at.message;
    if (FOR_LISTS.some(({ name }) => said.includes(`search attribute ${name}`))) return true;
  }
  return false;
}

/** Hosts start a job for the user who has signed it (`access/host-trust.ts`); lists name that user. */
function signature(
  jobId: JobId,
  spec: JobSpec,
  { onUnsigned, signer = ownIdentity }: SubmitOptions,
): { readonly memo?: Record<string, string>; readonly user?: string } {
  try {
    const job = { jobId, content: contentOfSpec(spec) };
    const identity = signer();
    return { memo: { [PROOF_MEMO]: signJob(job, identity, Date.now()) }, user: identity.name };
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    onUnsigned?.(error.message);
    return {};
  }
}

/** The file and its spec; throws REQUEST_TOO_LARGE, or BAD_INPUT with every problem. Sizes come first: they cost the least. */
export function readJob(source: JobFile | string, name: string = "job.yaml"): ReadJob {
  if (typeof source !== "string") {
    checkSize(fileTooLarge(source));
    return { file: source, ...accepted(parseJobFile(source)) };
  }
  const yaml = readJobText(source, name);
  checkSize(fileTooLarge(yaml.value));
  const meaning = accepted(parseLocatedJob(yaml, name));
  // The parser has just accepted this text as a job file, so its plain value is one.
  return { file: yaml.value as JobFile, ...meaning };
}

function accepted(parsed: ParsedJob | RefusedFile): Omit<ReadJob, "file"> {
  if (parsed.kind === "refused") {
    const problems = parsed.problems.map(formatProblem);
    throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
  }
  const { spec, notices, idempotencyKey } = parsed;
  return { spec, notices, ...(idempotencyKey !== undefined && { key: idempotencyKey }) };
}

function checkSize(excess: TooLarge | undefined): void {
  if (excess === undefined) return;
  const { message, ...details } = excess;
  throw new OrbweaverError("REQUEST_TOO_LARGE", message, { details });
}

/** Throws IDEMPOTENCY_CONFLICT when another job has the key. */
async function checkSame(
  client: Client,
  jobId: JobId,
  now: Pick<ReadJob, "spec" | "notices"> & { readonly fleet: string },
): Promise<void> {
  const first = await firstInput(client, jobId);
  const conflict = (differences: readonly string[]): OrbweaverError =>
    new OrbweaverError(
      "IDEMPOTENCY_CONFLICT",
      `the key ${jobId} belongs to another job already:\n${differences.join("\n")}\nUse another key, or submit the same job as before.`,
      { details: { jobId, differences } },
    );
  if (first === undefined) throw conflict(["a workflow of another kind has this id"]);
  const [file, options] = first;
  const former = parseJobFile(file);
  if (former.kind === "refused") throw conflict(["the first job's file cannot be read"]);
  const differences = [
    ...diffJobSpecs(former.spec, now.spec).map(differenceText),
    ...fleetDifference(options, now.fleet),
    // An address may be a secret.
    ...(diffValues(former.notices, now.notices).length > 0 ? ["notify: others before"] : []),
  ];
  if (differences.length > 0) throw conflict(differences);
}

function fleetDifference(options: unknown, fleet: string): readonly string[] {
  const isNamed = typeof options === "object" && options !== null && "fleet" in options;
  const former = isNamed && typeof options.fleet === "string" ? options.fleet : DEFAULT_FLEET;
  return former === fleet ? [] : [`fleet: ${former} before, ${fleet} now`];
}

function differenceText({ path, was, is }: JobDifference): string {
  return `${path}: ${was} before, ${is} now`;
}

/** One line for lists of workflows. */
function summaryOf({ name, class: jobClass, tenant, gang, run }: JobSpec): string {
  const command = run.command.join(" ");
  const line = `${name} · ${jobClass} · ${tenant} · ${String(gang.gpus)} GPUs · ${command}`;
  return line.replaceAll(/\s+/g, " ").slice(0, MAX_SUMMARY_CHARS);
}

/** Temporal takes 400 bytes; a character may be four of them. */
const MAX_SUMMARY_CHARS = 100;
