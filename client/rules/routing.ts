/**
 * @file Which workers of the control plane get the tasks of a namespace: Temporal's routing by versions of worker deployments.
 *
 * Each role has a deployment, named like its task queue. While no rules are committed, any release may be made current, and workers that
 * always run are unversioned. With the commit of rules N, the version `rules-N` becomes current (or a build on demand that knows
 * them stays so), and a manager is set, so that an older release can change it no more. From then on the server gives no task of
 * these queues to an unversioned worker, nor to one of another version. Workflows are pinned to no version (docs/decisions/0060).
 */

import { isGrpcServiceError, type Client } from "@temporalio/client";
import proto from "@temporalio/proto";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { CONTROL_TASK_QUEUES } from "../../protocol/names.ts";
import { OLDEST_RULES } from "../../scheduling/ledger/ledger.ts";

const { WORKER_VERSIONING_MODE_VERSIONED } = proto.temporal.api.enums.v1.WorkerVersioningMode;
const { TASK_QUEUE_TYPE_WORKFLOW } = proto.temporal.api.enums.v1.TaskQueueType;
const { TASK_QUEUE_KIND_NORMAL } = proto.temporal.api.enums.v1.TaskQueueKind;
const CANCELLED = 1;
const NOT_FOUND = 5;
const UNIMPLEMENTED = 12;
const ALREADY_EXISTS = 6;

/** The manager of the deployments; an older release that tries to become current shows this text in its error. */
export const managerOf = (rules: number): string =>
  `orbweaver: rules ${rules} are committed, releases that do not know them get no task`;

/** The build id under which workers that always run serve; any release that knows the rules may. */
export const rulesBuildId = (rules: number): string => `rules-${rules}`;

/** The rules that such a build id names. */
export function rulesOfBuildId(buildId: string): number | undefined {
  const digits = /^rules-(\d+)$/.exec(buildId)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

export interface Routing {
  /** The newest rules committed in the namespace. */
  readonly committed: number;
  /** The build that gets the tasks; absent: unversioned workers do. */
  readonly current?: string;
  /** The identity that may change the routing; absent: any. */
  readonly manager?: string;
  /** The newest rules that the current build knows. */
  readonly currentRules: number;
}

const FREE: Routing = { committed: OLDEST_RULES, currentRules: OLDEST_RULES };

/** The routing of one task queue of the control plane; free where the server knows no deployment of that name. */
export async function readRouting(client: Client, taskQueue: string): Promise<Routing> {
  const { workflowService } = client;
  const { namespace } = client.options;
  let info;
  try {
    const request = { namespace, deploymentName: taskQueue };
    info = (await workflowService.describeWorkerDeployment(request)).workerDeploymentInfo;
  } catch (error) {
    if (hasCode(error, NOT_FOUND) || hasCode(error, UNIMPLEMENTED)) return FREE;
    throw error;
  }
  const current = info?.routingConfig?.currentDeploymentVersion?.buildId ?? "";
  const manager = info?.managerIdentity ?? "";
  const committed = Number(/\brules (\d+) are committed/.exec(manager)?.[1] ?? OLDEST_RULES);
  return {
    committed,
    currentRules: await rulesOfBuild(client, taskQueue, current),
    ...(current !== "" && { current }),
    ...(manager !== "" && { manager }),
  };
}

/** Whether the server routes by worker deployments at all. */
export async function hasDeployments(client: Client): Promise<boolean> {
  const { namespace } = client.options;
  try {
    await client.workflowService.listWorkerDeployments({ namespace, pageSize: 1 });
    return true;
  } catch (error) {
    if (hasCode(error, UNIMPLEMENTED)) return false;
    throw error;
  }
}

/** The newest rules committed in the namespace. */
export async function committedRules(client: Client): Promise<number> {
  const routings = await Promise.all(
    CONTROL_TASK_QUEUES.map((taskQueue) => readRouting(client, taskQueue)),
  );
  return Math.max(...routings.map(({ committed }) => committed));
}

async function rulesOfBuild(client: Client, taskQueue: string, buildId: string): Promise<number> {
  if (buildId === "") return OLDEST_RULES;
  const named = rulesOfBuildId(buildId);
  if (named !== undefined) return named;
  const { workerDeploymentVersionInfo } =
    await client.workflowService.describeWorkerDeploymentVersion({
      namespace: client.options.namespace,
      deploymentVersion: { deploymentName: taskQueue, buildId },
    });
  const data = workerDeploymentVersionInfo?.metadata?.entries?.[RULES_ENTRY]?.data;
  const rules =
    data === null || data === undefined ? OLDEST_RULES : Number(Buffer.from(data).toString("utf8"));
  return Number.isInteger(rules) ? rules : OLDEST_RULES;
}

const RULES_ENTRY = "rules";

/** Notes beside a build which rules it knows. */
export async function noteRules(
  client: Client,
  taskQueue: string,
  { buildId, rules }: { readonly buildId: string; readonly rules: number },
): Promise<void> {
  await client.workflowService.updateWorkerDeploymentVersionMetadata({
    namespace: client.options.namespace,
    deploymentVersion: { deploymentName: taskQueue, buildId },
    upsertEntries: {
      [RULES_ENTRY]: {
        metadata: { encoding: Buffer.from("json/plain") },
        data: Buffer.from(String(rules)),
      },
    },
  });
}

/**
 * Commits rules to the routing of the namespace: from its return on no process that does not know them gets a task of the control plane.
 * Idempotent. Refused where newer rules are committed.
 */
export async function commitRouting(client: Client, rules: number): Promise<void> {
  await Promise.all(
    CONTROL_TASK_QUEUES.map(async (taskQueue) => {
      const routing = await readRouting(client, taskQueue);
      refuseOlder(routing, rules);
      const isServed = routing.current !== undefined && routing.currentRules >= rules;
      if (!isServed) await routeToRules(client, taskQueue, { rules, routing });
      if (routing.committed === rules) return;
      await client.workflowService.setWorkerDeploymentManager({
        namespace: client.options.namespace,
        deploymentName: taskQueue,
        managerIdentity: managerOf(rules),
        identity: managerOf(rules),
      });
    }),
  );
}

/** Routing that a release with these rules must leave alone. */
export function refuseOlder({ committed }: Pick<Routing, "committed">, rules: number): void {
  if (committed <= rules) return;
  throw new OrbweaverError(
    "NOT_ALLOWED",
    `rules ${committed} are committed in this namespace, and this release knows rules up to ${rules}. Use the newer release; there is no way back (docs/upgrade.md).`,
  );
}

/** Gives the queue's tasks to workers that always run and know the rules. */
export async function routeToRules(
  client: Client,
  taskQueue: string,
  { rules, routing }: { readonly rules: number; readonly routing: Routing },
): Promise<void> {
  const { workflowService } = client;
  const { namespace } = client.options;
  const deploymentVersion = { deploymentName: taskQueue, buildId: rulesBuildId(rules) };
  await unlessExists(() =>
    workflowService.createWorkerDeployment({
      namespace,
      deploymentName: taskQueue,
      requestId: randomUUID(),
    }),
  );
  await unlessExists(() =>
    workflowService.createWorkerDeploymentVersion({
      namespace,
      deploymentVersion,
      requestId: randomUUID(),
    }),
  );
  await registerQueue(client, taskQueue, deploymentVersion);
  await workflowService.setWorkerDeploymentCurrentVersion({
    namespace,
    ...deploymentVersion,
    identity: routing.manager ?? managerOf(rules),
    ignoreMissingTaskQueues: true,
    allowNoPollers: true,
  });
  await untilRouted(client, taskQueue, deploymentVersion.buildId);
}

const ROUTED_WITHIN_MS = 120_000;
const LOOK_EVERY_MS = 50;

/** The queue itself learns of a new current version a moment later than its deployment. */
async function untilRouted(client: Client, taskQueue: string, buildId: string): Promise<void> {
  const endAtMs = Date.now() + ROUTED_WITHIN_MS;
  for (;;) {
    const { versioningInfo } = await client.workflowService.describeTaskQueue({
      namespace: client.options.namespace,
      taskQueue: { name: taskQueue, kind: TASK_QUEUE_KIND_NORMAL },
      taskQueueType: TASK_QUEUE_TYPE_WORKFLOW,
    });
    if (versioningInfo?.currentDeploymentVersion?.buildId === buildId) return;
    if (Date.now() > endAtMs)
      throw new OrbweaverError(
        "NOT_ALLOWED",
        `the server does not route ${taskQueue} to ${buildId} within ${ROUTED_WITHIN_MS / 1_000} s. Run the command again.`,
      );
    await sleep(LOOK_EVERY_MS);
  }
}

/** The identity of the polls below. */
export const REGISTERS_QUEUE = "orbweaver: registers the task queue";

/** The server notes at the beginning of a poll which version serves the queue; a tenth of that is enough. */
const REGISTERED_WITHIN_MS = 1_000;
/** The server refuses polls with less time. */
const POLL_MS = 60_000;

/**
 * Polls the queue once as the version would. The server routes a task queue by versions only after a worker of one has polled it, and without
 * this an older worker would serve a queue (the solvers', say) that no newer one has polled yet. The version is not current, so no task
 * can come to these polls.
 */
async function registerQueue(
  client: Client,
  taskQueue: string,
  version: { readonly deploymentName: string; readonly buildId: string },
): Promise<void> {
  const { workflowService } = client;
  const request = {
    namespace: client.options.namespace,
    taskQueue: { name: taskQueue, kind: TASK_QUEUE_KIND_NORMAL },
    identity: REGISTERS_QUEUE,
    deploymentOptions: { ...version, workerVersioningMode: WORKER_VERSIONING_MODE_VERSIONED },
  };
  const briefly = async (poll: () => Promise<unknown>): Promise<void> => {
    const giveUp = AbortSignal.timeout(REGISTERED_WITHIN_MS);
    try {
      await client.withAbortSignal(giveUp, () => client.withDeadline(Date.now() + POLL_MS, poll));
    } catch (error) {
      if (!hasCode(error, CANCELLED)) throw error;
    }
  };
  await Promise.all([
    briefly(() => workflowService.pollWorkflowTaskQueue(request)),
    briefly(() => workflowService.pollActivityTaskQueue(request)),
  ]);
}

async function unlessExists(call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (!hasCode(error, ALREADY_EXISTS)) throw error;
  }
}

const hasCode = (error: unknown, code: number): boolean =>
  isGrpcServiceError(error) && Number(error.code) === code;
