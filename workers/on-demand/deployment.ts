/**
 * @file Tells Temporal's worker controller which program starts a role's worker, and takes that back.
 *
 * One worker deployment a role, one version a build of ours; the newest is current, and every workflow moves to it with its next
 * task, those that began on unversioned workers too. The server then runs the program whenever a task of the role finds
 * nobody who polls. Queries do not count as such tasks: `client/waking.ts` makes up for it.
 */

import { randomUUID } from "node:crypto";
import { isGrpcServiceError, type Client } from "@temporalio/client";
import { defaultPayloadConverter, type WorkerDeploymentVersion } from "@temporalio/common";
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

/** Makes `buildId` the build whose program is run for the role's tasks. Idempotent. Fails where the server has no worker controller. */
export async function deploy(client: Client, deployment: Deployment): Promise<void> {
  const { role, buildId, program } = deployment;
  const { workflowService } = client;
  const { namespace } = client.options;
  const deploymentName = deploymentNameOf(role);
  const deploymentVersion = deploymentVersionOf(role, buildId);
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
  await workflowService.setWorkerDeploymentCurrentVersion({
    namespace,
    deploymentName,
    buildId,
    ignoreMissingTaskQueues: true,
    allowNoPollers: true,
  });
  await withdraw(client, role, buildId);
}

/** The server starts no worker of any role any more; which build is current stays, for the next `up`. */
export async function withdrawAll(client: Client): Promise<void> {
  await Promise.all(CONTROL_ROLES.map((role) => withdraw(client, role)));
}

/** Gives the roles' tasks back to workers without a version, which are always on. */
export async function undeployAll(client: Client): Promise<void> {
  const { namespace } = client.options;
  await Promise.all(
    CONTROL_ROLES.map(async (role) => {
      await withdraw(client, role);
      const { current } = await versionsOf(client, role);
      if (current === undefined) return;
      await client.workflowService.setWorkerDeploymentCurrentVersion({
        namespace,
        deploymentName: deploymentNameOf(role),
        buildId: "",
        ignoreMissingTaskQueues: true,
        allowNoPollers: true,
      });
    }),
  );
}

/** Takes the program away from every version of the role but one. */
async function withdraw(client: Client, role: ControlRole, exceptBuildId?: string): Promise<void> {
  const { withProgram } = await versionsOf(client, role);
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

interface Versions {
  readonly current?: string;
  /** Builds for which the server would start a worker. */
  readonly withProgram: readonly string[];
}

async function versionsOf(client: Client, role: ControlRole): Promise<Versions> {
  const request = { namespace: client.options.namespace, deploymentName: deploymentNameOf(role) };
  let info;
  try {
    const answer = await client.workflowService.describeWorkerDeployment(request);
    info = answer.workerDeploymentInfo;
  } catch (error) {
    // It never ran on demand here.
    if (isGrpcServiceError(error) && Number(error.code) === NOT_FOUND) return { withProgram: [] };
    throw error;
  }
  const current = info?.routingConfig?.currentDeploymentVersion?.buildId;
  return {
    ...(typeof current === "string" && current !== "" && { current }),
    withProgram: (info?.versionSummaries ?? []).flatMap(({ deploymentVersion, computeConfig }) => {
      const buildId = deploymentVersion?.buildId;
      const groups = Object.keys(computeConfig?.scalingGroups ?? {});
      return typeof buildId === "string" && groups.includes(SCALING_GROUP) ? [buildId] : [];
    }),
  };
}

/**
 * `no-sync`: run the program when a task finds nobody who polls. Without a pause between two runs, because the second of two
 * tasks may be the other role's and is not looked at again for minutes; a program that is not needed ends in 50 ms.
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
