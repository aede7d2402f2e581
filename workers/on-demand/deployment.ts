/**
 * @file Registers the program that starts a role's worker with Temporal's worker controller, and withdraws it.
 *
 * Each role has one worker deployment, and each build one version of it. The newest version is current, and every workflow
 * moves to it with its next task, even a workflow that began on unversioned workers. The server runs the program whenever a
 * task of the role finds no poller. Queries do not start a worker; `client/waking.ts` compensates for that.
 */

import { randomUUID } from "node:crypto";
import { isGrpcServiceError, type Client } from "@temporalio/client";
import { defaultPayloadConverter, type WorkerDeploymentVersion } from "@temporalio/common";
import {
  noteRules,
  readRouting,
  refuseOlder,
  routeToRules,
  rulesBuildId,
} from "../../client/rules/routing.ts";
import { NEWEST_RULES, OLDEST_RULES } from "../../scheduling/ledger/ledger.ts";
import { CONTROL_ROLES, type ControlRole } from "./places.ts";

const SCALING_GROUP = "all";
const ALREADY_EXISTS = 6;
const NOT_FOUND = 5;

export const deploymentNameOf = (role: ControlRole): string => `orbweaver-${role}`;

export const deploymentVersionOf = (
  role: ControlRole,
  buildId: string,
): WorkerDeploymentVersion => ({ deploymentName: deploymentNameOf(role), buildId });

export interface Deployment {
  readonly role: ControlRole;
  readonly buildId: string;
  /** Absolute path of a program that starts the worker and returns; run by the server on its own machine. */
  readonly program: string;
}

/**
 * Makes `buildId` the build whose program runs for the role's tasks. Idempotent. Fails where the server has no worker
 * controller.
 */
export async function deploy(client: Client, deployment: Deployment): Promise<void> {
  const { role, buildId, program } = deployment;
  const { workflowService } = client;
  const { namespace } = client.options;
  const deploymentName = deploymentNameOf(role);
  const deploymentVersion = deploymentVersionOf(role, buildId);
  const routing = await readRouting(client, deploymentName);
  refuseOlder(routing, NEWEST_RULES);
  const { manager } = routing;
  await unless(ALREADY_EXISTS, () =>
    workflowService.createWorkerDeployment({ namespace, deploymentName, requestId: randomUUID() }),
  );
  const group = scalingGroup(program);
  const isNew = await unless(ALREADY_EXISTS, () =>
    workflowService.createWorkerDeploymentVersion({
      namespace,
      deploymentVersion,
      computeConfig: { scalingGroups: { [SCALING_GROUP]: group } },
      requestId: randomUUID(),
    }),
  );
  if (!isNew) {
    await workflowService.updateWorkerDeploymentVersionComputeConfig({
      namespace,
      deploymentVersion,
      computeConfigScalingGroups: {
        [SCALING_GROUP]: { scalingGroup: group, updateMask: { paths: ["provider", "scaler"] } },
      },
      requestId: randomUUID(),
    });
  }
  await noteRules(client, deploymentName, { buildId, rules: NEWEST_RULES });
  await workflowService.setWorkerDeploymentCurrentVersion({
    namespace,
    deploymentName,
    buildId,
    ...(manager !== undefined && { identity: manager }),
    ignoreMissingTaskQueues: true,
    allowNoPollers: true,
  });
  await withdraw(client, role, buildId);
}

/** Stops the server from starting workers of any role; the current version is kept for the next `up`. */
export async function withdrawAll(client: Client): Promise<void> {
  await Promise.all(CONTROL_ROLES.map((role) => withdraw(client, role)));
}

/** Returns the roles' tasks to workers that always run: to unversioned ones, or to those of the committed rules. */
export async function undeployAll(client: Client): Promise<void> {
  const { namespace } = client.options;
  await Promise.all(
    CONTROL_ROLES.map(async (role) => {
      await withdraw(client, role);
      const deploymentName = deploymentNameOf(role);
      const routing = await readRouting(client, deploymentName);
      refuseOlder(routing, NEWEST_RULES);
      if (routing.committed > OLDEST_RULES) {
        if (routing.current === rulesBuildId(routing.committed)) return;
        await routeToRules(client, deploymentName, { rules: routing.committed, routing });
        return;
      }
      if (routing.current === undefined) return;
      await client.workflowService.setWorkerDeploymentCurrentVersion({
        namespace,
        deploymentName,
        buildId: "",
        ignoreMissingTaskQueues: true,
        allowNoPollers: true,
      });
    }),
  );
}

/** Removes the program from every version of the role but one. */
async function withdraw(client: Client, role: ControlRole, exceptBuildId?: string): Promise<void> {
  const withProgram = await buildsWithProgram(client, role);
  await Promise.all(
    withProgram
      .filter((buildId) => buildId !== exceptBuildId)
      .map((buildId) =>
        client.workflowService.updateWorkerDeploymentVersionComputeConfig({
          namespace: client.options.namespace,
          deploymentVersion: deploymentVersionOf(role, buildId),
          removeComputeConfigScalingGroups: [SCALING_GROUP],
          requestId: randomUUID(),
        }),
      ),
  );
}

/** Builds for which the server would start a worker. */
async function buildsWithProgram(client: Client, role: ControlRole): Promise<readonly string[]> {
  const request = { namespace: client.options.namespace, deploymentName: deploymentNameOf(role) };
  let info;
  try {
    const answer = await client.workflowService.describeWorkerDeployment(request);
    info = answer.workerDeploymentInfo;
  } catch (error) {
    // It never ran on demand here.
    if (isGrpcServiceError(error) && Number(error.code) === NOT_FOUND) return [];
    throw error;
  }
  return (info?.versionSummaries ?? []).flatMap(({ deploymentVersion, computeConfig }) => {
    const buildId = deploymentVersion?.buildId;
    const groups = Object.keys(computeConfig?.scalingGroups ?? {});
    return typeof buildId === "string" && groups.includes(SCALING_GROUP) ? [buildId] : [];
  });
}

/**
 * `no-sync`: run the program when a task finds no poller. There is no pause between two runs, because the second of two tasks
 * may belong to the other role, and the controller would not look at it again for minutes; a superfluous program ends in 50 ms.
 */
function scalingGroup(program: string) {
  return {
    provider: {
      type: "subprocess",
      details: defaultPayloadConverter.toPayload({ command: program }),
    },
    scaler: {
      type: "no-sync",
      details: defaultPayloadConverter.toPayload({
        scale_up_cooloff_ms: 0,
        metrics_poll_interval_ms: 30_000,
      }),
    },
  };
}

/** Runs `call`; false when it failed with `code`. */
async function unless(code: number, call: () => Promise<unknown>): Promise<boolean> {
  try {
    await call();
    return true;
  } catch (error) {
    if (isGrpcServiceError(error) && Number(error.code) === code) return false;
    throw error;
  }
}
