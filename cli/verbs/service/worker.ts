/** @file `orbweaver worker --role …`: one process of the fleet, in the foreground until it is stopped. */

import { Option, type Command } from "commander";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { runFleetWorker } from "../../../workers/fleet-worker.ts";
import { runJobsWorker } from "../../../workers/jobs-worker.ts";
import { deploymentNameOf } from "../../../workers/on-demand/deployment.ts";
import { isControlRole } from "../../../workers/on-demand/places.ts";
import { DEFAULT_IDLE_MS } from "../../../workers/on-demand/setting.ts";
import { fleetStateDir } from "../../../workers/state.ts";
import type { SolverWorkerSetting } from "../../../workers/solver-worker.ts";
import { installRuntime, type OnDemandLife } from "../../../workers/workflow-worker.ts";
import { runAgentRole } from "../../command/agent-role.ts";
import { HOST_POLICY_FILE, TRUST_NAMES, type TrustName } from "../../command/host-trust.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { addressAndPort, wholeNumber } from "../../command/option-values.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import { connectionFor } from "../../command/session.ts";
import { storeDirOf } from "../../up/places.ts";
import { tellReady } from "../../up/worker-process.ts";
import { workerLogger } from "../../command/worker-log.ts";

const ROLES = ["fleet", "jobs", "solver", "agent"] as const;

interface AgentValues extends ConnectionOptionValues {
  readonly metrics?: string;
  readonly cluster?: string;
  readonly host?: string;
  readonly hostAddress?: string;
  readonly trust?: TrustName;
  readonly policy?: string;
}

interface WorkerValues extends AgentValues {
  readonly onDemand?: boolean;
  readonly idle?: number;
  readonly deployment?: string;
  readonly buildId?: string;
  readonly role: (typeof ROLES)[number];
}

export function workerVerb(context: CommandContext): Command {
  const verb = context
    .verb("worker")
    .summary("run a worker of the fleet")
    .description(
      "Runs one worker in the foreground. The roles `fleet` and `jobs` are the control plane, `solver` trains bandwidth models, and one `agent` runs on each host. `orbweaver up` starts the workers of a small fleet; in production, each is a service of its own.",
    )
    .addOption(
      new Option("--role <role>", "role of the worker").choices(ROLES).makeOptionMandatory(),
    )
    .option("--on-demand", "end when there is no work; for systems that start workers on demand")
    .option(
      "--idle <seconds>",
      "with --on-demand: idle time after which the worker ends (default: 15)",
      wholeNumber("--idle", 1),
    )
    .option(
      "--build-id <id>",
      "version of the deployment orbweaver-<role> to serve (default: unversioned tasks)",
    )
    .option("--deployment <name>", "name of the deployment (default: orbweaver-<role>)")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver worker --role jobs", "one more worker of jobs"],
        ["orbweaver worker --role jobs --on-demand", "a worker that ends when it is idle"],
        ["orbweaver worker --role agent --cluster eu-1", "the agent of this host"],
      ]),
    )
    .action(async (values: WorkerValues) => {
      const onDemand = onDemandLife(values);
      await runRole(context, values.role, { values, ...(onDemand !== undefined && { onDemand }) });
    });
  return addConnectionOptions(addAgentOptions(verb.addOption(metricsOption())));
}

/** The life of a worker on demand; undefined for one that stays. */
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
      `--on-demand is for the roles fleet, jobs and solver; a worker of role ${role} always runs.`,
    );
  }
  return {
    idleMs: idle === undefined ? DEFAULT_IDLE_MS : idle * 1_000,
    ...(buildId !== undefined && {
      version: { deploymentName: deployment ?? deploymentNameOf(role), buildId },
    }),
  };
}

export function agentVerb(context: CommandContext): Command {
  const verb = context
    .verb("agent")
    .summary("run the agent of a host")
    .description(
      "Runs the agent that starts, watches and stops the processes of jobs on this host; the same as `orbweaver worker --role agent`. Processes of jobs survive the agent, and a restarted agent adopts them. A health file of the machine (/etc/orbweaver/health.yaml, or the one that ORBWEAVER_HEALTH names) has it check the host.",
    )
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver agent --cluster eu-1", "this host, under its own name"],
        [
          "orbweaver agent --cluster eu-1 --host gpu-7 --host-address 10.0.0.7",
          "a host with another name and address",
        ],
        ["orbweaver agent --cluster sim", "all hosts of a simulated cluster"],
      ]),
    )
    .action(async (values: AgentValues) => {
      await runRole(context, "agent", { values });
    });
  return addConnectionOptions(addAgentOptions(verb.addOption(metricsOption())));
}

const metricsOption = (): Option =>
  new Option(
    "--metrics <address:port>",
    "serve the metrics of Temporal's SDK for Prometheus here, to whoever reaches the address",
  ).argParser(addressAndPort("--metrics"));

function addAgentOptions(verb: Command): Command {
  return verb
    .optionsGroup("Options of the agent:")
    .option("--cluster <cluster>", "the cluster that the host belongs to")
    .option("--host <host>", "name of the host in the fleet file (default: this machine's name)")
    .option("--host-address <address>", "address for the other hosts of a gang (default: its name)")
    .addOption(
      new Option(
        "--trust <whom>",
        "whose jobs the host starts: those of the agent's own user, or of everybody in the namespace (default: own-user)",
      ).choices(TRUST_NAMES),
    )
    .option(
      "--policy <file>",
      `whose jobs the host starts, by a file (default: ${HOST_POLICY_FILE}, if it exists)`,
    );
}

/** Loaded on use, because it loads onnxruntime. */
async function solver(setting: SolverWorkerSetting): Promise<void> {
  const { runSolverWorker } = await import("../../../workers/solver-worker.ts");
  await runSolverWorker(setting);
}

async function runRole(
  context: CommandContext,
  role: WorkerValues["role"],
  { values, onDemand }: { readonly values: AgentValues; readonly onDemand?: OnDemandLife },
): Promise<void> {
  context.endsByItself();
  const { io } = context;
  const fleet = fleetNamed(values, io.env);
  const logger = workerLogger(io, role);
  installRuntime(logger, true, {
    isSilent: role === "agent",
    ...(values.metrics !== undefined && {
      metrics: { address: values.metrics, labels: { fleet, role } },
    }),
  });
  const connection = await connectionFor(values, io);
  const stateDir = fleetStateDir(io.env, fleet);
  const setting = {
    ...{ connection, stateDir },
    logger,
    ...(onDemand !== undefined && { onDemand }),
    onReady: () => {
      logger.info({ fleet, server: connection.address, namespace: connection.namespace }, "ready");
      tellReady();
    },
  };
  switch (role) {
    case "fleet":
      await runFleetWorker({ ...setting, storeDir: storeDirOf(stateDir) });
      return;
    case "jobs":
      await runJobsWorker(setting);
      return;
    case "agent":
      await runAgentRole(context, values, { ...setting, fleet });
      return;
    case "solver":
      await solver({ ...setting, storeDir: storeDirOf(stateDir) });
      return;
  }
}
