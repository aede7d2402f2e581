/**
 * @file Changes the settings of a job that waits or runs: reads them as a job file's, signs the job anew where that is needed, asks the job.
 *
 * The job refuses a change that was made of an older state of it; then the change is made once more of the present one.
 */

import type { Client } from "@temporalio/client";
import { checkJobProof, signJob, type ProvenSubmitter } from "../access/job-proof.ts";
import { ownIdentity, type Identity } from "../access/own-identity.ts";
import { amendSpec, type JobChanges } from "../domain/job/amendment.ts";
import { formatProblem, parseJobFile, type JobFile } from "../domain/job/job-file.ts";
import { MAX_GANG_GPUS, type JobSpec } from "../domain/job/job.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { JobId } from "../domain/values/ids.ts";
import { amendUpdate, type AmendAnswer, type JobView } from "../protocol/messages.ts";
import { contentOfSpec, PROOF_MEMO } from "../protocol/signed-job.ts";
import { ordered } from "./orders.ts";
import { asked } from "./server-error.ts";
import { firstInput } from "./first-input.ts";
import { checkChange } from "./never-starts.ts";

/** As in a job file; absent: as before. */
export interface NewSettings extends Pick<
  JobFile,
  "priority" | "tenant" | "timeLimit" | "deadline"
> {
  /** `gang.min`. */
  readonly min?: number;
  /** `gang.gpus`. */
  readonly max?: number;
}

export interface AmendOptions {
  /** Called when the change could not be signed as the user's: only hosts that trust the whole namespace run the job then. */
  readonly onUnsigned?: (why: string) => void;
  /** Also where the fleet would never start the job so; else that is NEVER_STARTS. */
  readonly isQueuedAnyway?: boolean;
  /** Called with what the job would be before it is asked; throws to leave it as it is. */
  readonly check?: (spec: JobSpec) => Promise<void>;
  /** Whose key signs, in whose name, a job that `former` has signed; throws to leave it as it is. The user's own when absent. */
  readonly signer?: (former: ProvenSubmitter) => Identity;
}

const TRIES = 3;

/** Throws BAD_INPUT with every problem of the values. */
export function changesOf({ min, max, ...rest }: NewSettings): JobChanges {
  const file = {
    name: "changed",
    gang: { gpus: max ?? MAX_GANG_GPUS, ...(min !== undefined && { min }) },
    run: { command: ["true"] },
    ...rest,
  };
  const parsed = parseJobFile(file);
  if (parsed.kind === "refused") {
    const problems = parsed.problems.map(formatProblem);
    throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
  }
  const { priority, tenant, timeLimitMs, deadlineMs } = parsed.spec;
  const changes: JobChanges = {
    ...(rest.priority !== undefined && { priority }),
    ...(rest.tenant !== undefined && { tenant }),
    ...(timeLimitMs !== undefined && { timeLimitMs }),
    ...(deadlineMs !== undefined && { deadlineMs }),
    ...(min !== undefined && { min }),
    ...(max !== undefined && { max }),
  };
  if (Object.keys(changes).length === 0)
    throw new OrbweaverError(
      "BAD_INPUT",
      "nothing is to be changed. Give a priority, a tenant, a time limit, a deadline, or a gang's min or max.",
    );
  return changes;
}

export async function amendJob(
  { client, jobId, view, by }: AmendedJob,
  changes: JobChanges,
  { onUnsigned, isQueuedAnyway = false, check, signer }: AmendOptions,
): Promise<AmendAnswer> {
  const isOtherDemand = (changes.tenant ?? changes.min ?? changes.max) !== undefined;
  const subject = `job ${jobId}`;
  for (let left = TRIES; ; left -= 1) {
    const { spec, amended, fleet } = await view();
    const basis = amended?.count ?? 0;
    if (spec === undefined)
      throw new OrbweaverError("NOT_ALLOWED", `${subject} is still being read. Try again.`);
    const made = amendSpec(spec, changes);
    if (made.kind === "refused")
      throw new OrbweaverError("BAD_INPUT", `${subject} cannot be changed so: ${made.problem}`);
    await check?.(made.spec);
    if (isOtherDemand && !isQueuedAnyway)
      await checkChange(client, made.spec, { jobId, fleet, isNot: "changed" });
    const isSigned = made.changes.some(
      ({ setting }) => setting === "tenant" || setting === "timeLimitMs",
    );
    const proof = isSigned
      ? await signature({ client, jobId, spec: made.spec }, { onUnsigned, signer })
      : undefined;
    const order = {
      changes,
      by,
      basis,
      ...(proof !== undefined && { proof }),
    };
    try {
      return await ordered({ client, workflowId: jobId, subject }, amendUpdate, order);
    } catch (error) {
      const now = (await view().catch(() => undefined))?.amended?.count ?? 0;
      if (left <= 1 || now === basis) throw error;
    }
  }
}

export interface AmendedJob {
  readonly client: Client;
  readonly jobId: JobId;
  readonly view: () => Promise<JobView>;
  /** The name of who asks. */
  readonly by: string;
}

/** The job file with the settings that the job has now: what an amendment said holds for its reruns, too. */
export function fileAsAmended(file: JobFile, spec: JobSpec): JobFile {
  const former = parseJobFile(file);
  if (former.kind === "refused") return file;
  const { priority, tenant, timeLimitMs, deadlineMs, gang } = spec;
  const { gpus, min, shapes } = gang;
  const isSameGang = gpus === former.spec.gang.gpus && min === former.spec.gang.min;
  const map = typeof file.gang === "number" ? { gpus: file.gang } : file.gang;
  const { shapes: _shapes, ...plain } = map;
  return {
    ...file,
    ...(priority !== former.spec.priority && { priority }),
    ...(tenant !== former.spec.tenant && { tenant }),
    ...(timeLimitMs !== former.spec.timeLimitMs && { timeLimit: milliseconds(timeLimitMs) }),
    ...(deadlineMs !== former.spec.deadlineMs && { deadline: milliseconds(deadlineMs) }),
    ...(!isSameGang && {
      gang: {
        ...plain,
        gpus,
        min,
        ...(shapes !== undefined && shapes.length > 0 && { shapes: [...shapes] }),
      },
    }),
  };
}

const milliseconds = (length = 0): string => `${String(length)}ms`;

/** Of what the job's submitter has signed, with the new tenant and time limit: what a job says of itself now proves nothing. */
async function signature(
  { client, jobId, spec }: Pick<AmendedJob, "client" | "jobId"> & { readonly spec: JobSpec },
  {
    onUnsigned,
    signer = () => ownIdentity(),
  }: {
    readonly onUnsigned: AmendOptions["onUnsigned"];
    readonly signer: AmendOptions["signer"];
  },
): Promise<string | undefined> {
  const workflow = client.workflow.getHandle(jobId);
  const { runId, memo } = await asked(client, `job ${jobId}`, () => workflow.describe());
  const former = memo?.[PROOF_MEMO];
  if (former === undefined) {
    onUnsigned?.(`job ${jobId} was not signed, either`);
    return undefined;
  }
  const [file] = (await firstInput(client, jobId)) ?? [];
  const first = parseJobFile(file);
  const content = first.kind === "refused" ? undefined : contentOfSpec(first.spec);
  const check = checkJobProof(former, { jobId, content, run: runId });
  if (content === undefined || check.kind === "refused")
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `job ${jobId} was not signed as it is: submit it again`,
    );
  const { tenant, timeLimitMs } = spec;
  const amended = { ...content, tenant, ...(timeLimitMs !== undefined && { timeLimitMs }) };
  try {
    return signJob({ jobId, content: amended, run: runId }, signer(check.by), Date.now());
  } catch (error) {
    // The user's key cannot be read.
    if (!(error instanceof OrbweaverError) || error.code !== "BAD_INPUT") throw error;
    onUnsigned?.(error.message);
    return undefined;
  }
}
