/**
 * @file `orbweaver worker --role …`: one process of the fleet's machinery, in the foreground until it is told to end.
 *
 * `orbweaver agent` is the agent's role under its own name. Every role may be killed and started again at any moment.
 */

import { Option, type Command } from "commander";
import { OrbweaverError } from "../../domain/failure.ts";
import { runFleetWorker } from "../../workers/fleet-worker.ts";
import { runJobsWorker } from "../../workers/jobs-worker.ts";
import { deploymentNameOf } from "../../workers/on-demand/deployment.ts";
import { isControlRole } from "../../workers/on-demand/places.ts";
import { DEFAULT_IDLE_MS } from "../../workers/on-demand/setting.ts";
import { fleetStateDir } from "../../workers/state.ts";
import type { SolverWorkerSetting } from "../../workers/solver-worker.ts";
import type { OnDemandLife } from "../../workers/workflow-worker.ts";
import { runAgentRole } from "../agent-role.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { wholeNumber } from "../option-values.ts";
import { connectionFor, fleetNamed } from "../session.ts";
import { storeDirOf } from "../up/places.ts";
import { workerLogger } from "../worker-log.ts";

const ROLES = ["fleet", "jobs", "solver", "agent"] as const;

interface AgentValues extends ConnectionOptionValues {
  readonly cluster?: string;
  readonly host?: string;
  readonly hostAddress?: string;
}

interface WorkerValues extends AgentValues {
  readonly onDemand?: boolean;
  readonly idle?: number;
  readonly deployment?: string;
  readonly buildId?: string;
  readonly role: (typeof ROLES)[number];
}

export function workerVerb(kit: Kit): Command {
  const verb = kit
    .verb("worker")
    .summary("run a worker of the fleet")
    .description(
      "Runs one worker in the foreground: `fleet` and `jobs` are the control plane, `solver` trains bandwidth models,\n" +
        "one `agent` runs on each host.\n" +
        "`orbweaver up` starts what a small fleet needs; in production each is a service of its own.",
    )
    .addOption(new Option("--role <role>", "which worker").choices(ROLES).makeOptionMandatory())
    .option("--on-demand", "end when there is no work: for whoever starts workers on demand")
    .option(
      "--idle <seconds>",
      "with --on-demand: after so long without work (else 15)",
      wholeNumber("--idle", 1),
    )
    .option(
      "--build-id <id>",
      "serve this version of the deployment orbweaver-<role> (else unversioned tasks)",
    )
    .option("--deployment <name>", "another deployment than orbweaver-<role>")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver worker --role jobs", "one more worker for many jobs"],
        ["orbweaver worker --role jobs --on-demand", "one that ends when nothing is left to do"],
        ["orbweaver worker --role agent --cluster eu-1", "the agent of this host"],
      ]),
    )
    .action(async (values: WorkerValues) => {
      await runRole(kit, values.role, values, onDemandLife(values));
    });
  return addConnectionOptions(addAgentOptions(verb));
}

/** How the worker lives, if it is not to stay. */
function onDemandLife(values: WorkerValues): OnDemandLife | undefined {
  const { role, onDemand, idle, deployment, buildId } = values;
  if (onDemand !== true) {
    if (idle === undefined && deployment === undefined && buildId === undefined) return undefined;
    throw new OrbweaverError(
      "BAD_INPUT",
      "--idle, --build-id and --deployment are for workers on demand. Add --on-demand.",
    );
  }
  if (!isControlRole(role)) {
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `--on-demand is for the roles fleet, jobs and solver; a worker of role ${role} has to stay.`,
    );
  }
  return {
    idleMs: idle === undefined ? DEFAULT_IDLE_MS : idle * 1_000,
    ...(buildId !== undefined && {
      version: { deploymentName: deployment ?? deploymentNameOf(role), buildId },
    }),
  };
}

export function agentVerb(kit: Kit): Command {
  const verb = kit
    .verb("agent")
    .summary("run the agent of a host")
    .description(
      "Runs the agent that starts, watches and stops the processes of jobs on this host; the same as\n" +
        "`orbweaver worker --role agent`. What runs survives the agent: a restarted one takes it over.",
    )
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver agent --cluster eu-1", "this host, by its own name"],
        ["orbweaver agent --cluster eu-1 --host gpu-7 --host-address 10.0.0.7", "named in full"],
        ["orbweaver agent --cluster sim", "all hosts of a simulated cluster"],
      ]),
    )
    .action(async (values: AgentValues) => {
      await runRole(kit, "agent", values);
    });
  return addConnectionOptions(addAgentOptions(verb));
}

function addAgentOptions(verb: Command): Command {
  return verb
    .optionsGroup("Options of the agent:")
    .option("--cluster <cluster>", "the cluster that the host belongs to")
    .option("--host <host>", "name of the host in the fleet file (else this machine's name)")
    .option(
      "--host-address <address>",
      "where other hosts of a gang reach this one (else its name)",
    );
}

/** Loaded when it is asked for: it brings a runtime for models along. */
async function solver(setting: SolverWorkerSetting): Promise<void> {
  const { runSolverWorker } = await import("../../workers/solver-worker.ts");
  await runSolverWorker(setting);
}

async function runRole(
  kit: Kit,
  role: WorkerValues["role"],
  values: AgentValues,
  onDemand?: OnDemandLife,
): Promise<void> {
  kit.endsByItself();
  const { io } = kit;
  const fleet = fleetNamed(values, io.env);
  const logger = workerLogger(io, role);
  const connection = await connectionFor(values, io);
  const setting = {
    connection,
    logger,
    ...(onDemand !== undefined && { onDemand }),
    onReady: () => {
      logger.info({ fleet, server: connection.address, namespace: connection.namespace }, "ready");
      // `up` waits for this word; nobody else listens.
      if (process.send !== undefined) process.send({ kind: "ready" }, () => process.disconnect());
    },
  };
  switch (role) {
    case "fleet":
      await runFleetWorker({ ...setting, storeDir: storeDirOf(fleetStateDir(io.env, fleet)) });
      return;
    case "jobs":
      await runJobsWorker(setting);
      return;
    case "agent":
      await runAgentRole(kit, values, { ...setting, fleet });
      return;
    case "solver":
      await solver({ ...setting, storeDir: storeDirOf(fleetStateDir(io.env, fleet)) });
      return;
  }
}
