/**
 * @file Whether an agent's hosts start an order for whoever submitted its job.
 *
 * The order says nothing about that: whoever reaches the frontend can write orders. The server tells which workflow has scheduled the
 * activity, when that workflow started, and the memo that it was started with; the memo has the submitter's signature over what is to
 * run (`protocol/signed-job.ts`). A signature is used soon after it was made, so that it starts no workflow of a later day.
 * Cost: one describe call for each start on a host.
 */

import { activityInfo, Context } from "@temporalio/activity";
import type { Client } from "@temporalio/client";
import { userInfo } from "node:os";
import { realpathSync } from "node:fs";
import { trustRefusal, userOfTenant, type HostTrust } from "../access/host-trust.ts";
import {
  checkJobProof,
  contentHash,
  type JobToProve,
  type ProofCheck,
} from "../access/job-proof.ts";
import { ownIdentity } from "../access/own-identity.ts";
import {
  closedAbove,
  hostUser,
  runAsTrouble,
  withinOwnLimits,
  type ProcessLimits,
  type RunAs,
} from "../access/run-as.ts";
import { believedKeys } from "../access/role-keys.ts";
import { checkTicket, ticketMismatch, type LaunchTicket } from "../access/ticket.ts";
import { maskOn } from "../agent/runs/agent-host.ts";
import { failure } from "../agent/system/failures.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { imageFault } from "../domain/job/image-schema.ts";
import { extrasProblem, PLAN_VARIABLE } from "../domain/lease/launch-extras.ts";
import { isPlannedVariable } from "../domain/model/engine-names.ts";
import { SERVING_ENV } from "../domain/job/serving-env.ts";
import type { RunOrder } from "../protocol/agent-contract.ts";
import { POLICY_VARIABLE, REWARDS_VARIABLE, SEAL_VARIABLE } from "../protocol/collective-files.ts";
import { contentOfOrder, PROOF_AGE_MS, proofsIn } from "../protocol/signed-job.ts";
import { isSameWorkflow, ticketUse, type HostAccess } from "./order-check.ts";
import type { RefusalTally } from "./refusal-tally.ts";
import { memoOf } from "./workflow-memo.ts";

/** Launch extras are signed by nobody; these name files of ours, which no program executes. */
const EXTRA_VARIABLES: readonly string[] = [
  PLAN_VARIABLE,
  POLICY_VARIABLE,
  SEAL_VARIABLE,
  REWARDS_VARIABLE,
  SERVING_ENV.plan,
];

export function ownUserTrust(): HostTrust {
  const { publicKey, name } = ownIdentity();
  return { kind: "own-user", publicKey, name };
}

/** As agents say it where they poll. */
export const trustWord = (trust: HostTrust): string =>
  trust.kind === "own-user" ? `own-user:${trust.name.replaceAll(/\s/g, "_")}` : trust.kind;

/** For people. */
export function trustText(trust: HostTrust): string {
  switch (trust.kind) {
    case "own-user":
      return `jobs that user ${trust.name} has signed`;
    case "policy":
      return `jobs that ${trust.file} allows`;
    case "namespace":
      return "jobs of everybody who reaches the namespace";
  }
}

/** Whether a host has let the order's lease start before, so that its ticket's time is over by right. */
export type HasStarted = (order: RunOrder) => boolean;

export function submitterCheck(
  client: Client,
  access: HostAccess,
  hasStarted: HasStarted,
): (order: RunOrder) => Promise<string | undefined> {
  const agent = { name: userInfo().username, isRoot: process.getuid?.() === 0 };
  /** A reset to a later task has the run before's orders again, with their values, or gives them anew for its leases. */
  const isReset = (order: RunOrder): Promise<boolean> => isSameWorkflow(client, order);
  return async (order) => {
    const extras = order.launchExtras && extrasRefusal(order.launchExtras, order.gang.length);
    if (extras !== undefined) return extras;
    // Whoever submits with a client of their own has passed no reader of job files.
    const fault = imageFault(order.run);
    if (fault !== undefined) return fault;
    const sender = Context.current().info.workflowExecution;
    const isJobs = sender?.workflowId === order.jobId && sender.workflowId === order.workflowId;
    const isOwnOrder = isJobs && sender.runId === order.workflowRunId;
    if (isOwnOrder ? order.holder.runId !== sender.runId : isJobs && (await isReset(order)))
      throw failure(
        "STALE_TOKEN",
        `${order.leaseId} was granted to a run of ${order.jobId} that was reset, and its fleet takes it back`,
      );
    if (!isOwnOrder)
      return `the order comes from ${sender?.workflowId ?? "no workflow"}, not from its job`;
    const found = launchTicketOf(order, access);
    if (typeof found === "string") return found;
    if (Date.now() > found.until && !hasStarted(order))
      throw failure("STALE_TOKEN", `the ticket of ${order.leaseId} is over; ask for GPUs again`);
    const trust = access.trust();
    if (trust.kind === "namespace") return agent.isRoot ? refusalOfRoot(order) : undefined;
    const { workflowId, workflowRunId: runId } = order;
    const { memo, startedAtMs, firstRunId } = await memoOf(client, { workflowId, runId });
    const content = contentOfOrder(order);
    const check = proofOf(memo, { jobId: order.jobId, content, run: runId });
    if (check.kind === "refused") return check.reason;
    if (found.hash !== contentHash(content) || found.by !== check.by.publicKey)
      return "its ticket was signed for another content, or for another submitter";
    if (found.start !== undefined && firstRunId !== undefined && found.start !== firstRunId)
      return "its signature, or its ticket, has served an earlier workflow of its id, and is good for one. Submit it again.";
    const ageMs = Math.abs(startedAtMs - check.by.signedAtMs);
    if (check.by.run === undefined && ageMs > PROOF_AGE_MS)
      return `it was signed ${String(Math.round(ageMs / 60_000))} minutes away from its start, and a signature is good for ${String(PROOF_AGE_MS / 60_000)}. Submit it again, or set the clocks.`;
    const { command, env, secrets, workdir, checkpoint, container } = order.run;
    return trustRefusal(trust, check.by, {
      tenant: order.holder.tenant,
      command,
      env,
      ...(secrets !== undefined && { secrets }),
      agent,
      // Whatever is no signal is started (`agent/runs/checkpoint-order.ts`), and nobody has parsed it.
      ...(checkpoint !== undefined &&
        checkpoint.order.kind !== "signal" && { checkpointCommand: checkpoint.order.command }),
      ...(container !== undefined && {
        image: container,
        folders: [workdir, checkpoint?.dir].filter((path) => path !== undefined),
      }),
    });
  };
}

/** What an agent of root does for nobody whom it has not checked. */
function refusalOfRoot({ run }: RunOrder): string | undefined {
  if (run.secrets !== undefined)
    return "it names secrets, and an agent of root looks up none for submitters that nobody has checked. Give the host a policy with secrets (--policy).";
  if (run.container !== undefined)
    return "an agent of root starts images for submitters that nobody has checked only where a policy allows them. Give the host a policy with containers (--policy), or let the agent run as another user.";
  return undefined;
}

/** By the newest signature that is good for the order; why the first one is not, where none is. */
function proofOf(memo: Readonly<Record<string, unknown>>, job: Required<JobToProve>): ProofCheck {
  const checks = proofsIn(memo).map((proof) => checkJobProof(proof, job));
  const proven = checks.reverse().find(({ kind }) => kind === "proven");
  return proven ?? checks.at(-1) ?? { kind: "refused", reason: "it is not signed" };
}

/**
 * The ticket, or why it is none for this order. Throws STALE_TOKEN for an order without one, because the job gets one with its next lease, and
 * HOST_REFUSED where this host believes other keys.
 */
function launchTicketOf(order: RunOrder, access: HostAccess): LaunchTicket | string {
  const check = checkTicket(order.ticket, access.believed());
  if (check.kind === "absent") throw failure("STALE_TOKEN", `${order.leaseId}: ${check.reason}`);
  if (check.kind === "unknown-key")
    throw failure("HOST_REFUSED", `${order.leaseId}: ${check.reason}`);
  if (check.kind !== "good") return check.reason;
  const { ticket } = check;
  if (ticket.kind !== "launch") return "its ticket is one to stop";
  const mismatch = ticketMismatch(ticket, ticketUse(order, access));
  if (mismatch !== undefined) return mismatch;
  const [, mask = 0] = ticket.gpus.find(([name]) => name === order.host) ?? [];
  return mask === maskOn(order) ? ticket : `its ticket is for other GPUs of ${order.host}`;
}

function extrasRefusal(
  extras: NonNullable<RunOrder["launchExtras"]>,
  hosts: number,
): string | undefined {
  const [variable] =
    Object.entries(extras.env).find(
      ([name, value]) => !EXTRA_VARIABLES.includes(name) && !isPlannedVariable(name, value),
    ) ?? [];
  return variable === undefined
    ? extrasProblem(extras, hosts)
    : `its launch extras set ${variable}, which no part of them does in this way`;
}

/** The user as whom a host of root runs an order, by its number: as the host knew it when the agent started. */
export function jobUidOf(trust: HostTrust): (order: RunOrder) => number | undefined {
  if (trust.kind !== "policy" || trust.policy.users === undefined || process.getuid?.() !== 0)
    return () => undefined;
  const { policy } = trust;
  const names = new Set(Object.values(trust.policy.users));
  const uids = new Map([...names].map((name) => [name, hostUser(name).uid]));
  return ({ holder }) => uids.get(userOfTenant(policy, holder.tenant) ?? "");
}

/** As whom a host runs an order: the user that its policy named for the tenant when the agent started. Throws BAD_INPUT where that cannot work here. */
export function runAsOf(
  now: () => HostTrust,
  { stateDir, native }: { readonly stateDir: string; readonly native: string | undefined },
): (order: RunOrder) => RunAs | undefined {
  const trust = now();
  if (trust.kind !== "policy" || trust.policy.users === undefined || process.getuid?.() !== 0)
    return () => undefined;
  const { policy, file } = trust;
  const limitsNow = (): ProcessLimits => {
    const found = now();
    return withinOwnLimits((found.kind === "policy" ? found.policy : policy).limits);
  };
  const realDir = realpathSync(stateDir);
  const trouble = runAsTrouble();
  if (trouble !== undefined)
    throw new OrbweaverError("BAD_INPUT", `jobs cannot run as the users of ${file}: ${trouble}`);
  const cover = closedAbove(realDir);
  const names = new Set(Object.values(trust.policy.users));
  const users = new Map([...names].map((name) => [name, hostUser(name)]));
  return ({ holder }) => {
    const user = users.get(userOfTenant(policy, holder.tenant) ?? "");
    return (
      user && {
        // The groups of today: util-linux looks them up itself at each start.
        ...{ user: native === undefined ? user : hostUser(user.name) },
        ...{ limits: limitsNow(), stateDir: realDir },
        ...(cover && { cover }),
        ...(native !== undefined && { native }),
      }
    );
  };
}

/** Those that the policy names, else those in the agent's own folder; at this moment. */
export function fleetKeysOf(trust: () => HostTrust): () => readonly string[] {
  const inFolder = believedKeys();
  return () => {
    const found = trust();
    return (found.kind === "policy" ? found.policy.fleetKeys : undefined) ?? inFolder();
  };
}

/** The report of a batch says of each of its tasks that it was refused, and fails nothing. */
export const notingBatches =
  (mayStart: ReturnType<typeof submitterCheck>, refusals: RefusalTally): typeof mayStart =>
  async (order) => {
    const why = await mayStart(order);
    if (why !== undefined && order.taskBatch !== undefined)
      refusals.later(activityInfo())(order, why);
    return why;
  };
