/** @file `orbweaver up`: its options, and its answer; `cli/up/` does the work. */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { fleetStateDir } from "../../../workers/state.ts";
import { trustText, trustWord } from "../../../workers/submitter-check.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import {
  addConnectionOptions,
  connectionFlags,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import { TRUST_NAMES, type TrustName } from "../../command/host-trust.ts";
import { wholeNumber } from "../../command/option-values.ts";
import { counted, durationText } from "../../terminal/duration.ts";
import { bringUp, type Up } from "../../up/bring-up.ts";
import { oneAtATime } from "../../up/one-at-a-time.ts";
import { takeDown } from "../../up/take-down.ts";

interface UpValues extends ConnectionOptionValues {
  readonly name?: string;
  readonly db?: string;
  readonly uiPort?: number;
  readonly alwaysOn?: boolean;
  readonly onDemand?: boolean;
  readonly idle?: number;
  readonly trust?: TrustName;
  readonly policy?: string;
  readonly console?: boolean;
  readonly foreground?: boolean;
  readonly json?: boolean;
}

export function upVerb(context: CommandContext): Command {
  const verb = context
    .verb("up")
    .summary("start a fleet on this machine")
    .description(
      "Starts the missing parts of a fleet: a Temporal server (unless one is configured), the workers of the control plane, the agents of simulated clusters and of this machine, and a console for your browser. The processes keep running after the terminal closes. Without a file, takes the GPUs of this machine, or without any a small simulated fleet.",
    )
    .argument("[fleet.yaml]", "fleet file; changes the fleet when it runs already")
    .option("--name <name>", "name of the fleet; the same as --fleet")
    .option("--db <file>", "database of the Temporal server (default: in the state folder)")
    .option(
      "--ui-port <port>",
      "port of Temporal's Web UI (default: a free port)",
      wholeNumber("--ui-port", 1),
    )
    .addOption(
      new Option("--always-on", "keep the workers of the control plane running").conflicts(
        "onDemand",
      ),
    )
    .option("--on-demand", "start them when there is work (default with a server of our own)")
    .option(
      "--idle <seconds>",
      "idle time after which workers on demand end (default: 15)",
      wholeNumber("--idle", 1),
    )
    .addOption(
      new Option(
        "--trust <whom>",
        "whose jobs the agents here start: yours, or those of everybody in the namespace (default: own-user)",
      ).choices(TRUST_NAMES),
    )
    .option("--policy <file>", "host policy that says whose jobs the agents here start")
    .option("--no-console", "start no console; `orbweaver console` starts one later")
    .option("--foreground", "stay in the foreground, and take the fleet down at Ctrl-C")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver up", "the GPUs of this machine; without any, a small simulated fleet"],
        ["orbweaver up fleet.yaml", "start a fleet from its file, or apply a changed file"],
        ["orbweaver up --always-on", "never wait for a worker to start"],
        ["orbweaver up --trust namespace", "run jobs of all who reach the Temporal server"],
        [
          "TEMPORAL_ADDRESS=temporal.example:7233 orbweaver up fleet.yaml",
          "use your own Temporal server",
        ],
      ]),
    )
    .action(async (file: string | undefined, values: UpValues) => {
      const fleet = values.name ?? fleetNamed(values, context.io.env);
      if (file === undefined) refuseFileAsName(context, fleet);
      const stateDir = fleetStateDir(context.io.env, fleet);
      const up = await oneAtATime(context, stateDir, () =>
        bringUp(context, {
          fleet,
          file,
          flags: connectionFlags(values),
          db: values.db,
          uiPort: values.uiPort,
          isAlwaysOn: values.alwaysOn === true,
          isOnDemand: values.onDemand === true,
          idleMs: values.idle === undefined ? undefined : values.idle * 1_000,
          trust: values.trust,
          policy: values.policy,
          hasConsole: values.console !== false,
        }),
      );
      if (values.json === true) context.printJson(summaryOf(up));
      else printSummary(context, up);
      if (values.foreground === true) {
        context.endsByItself();
        context.say("Ctrl-C takes the fleet down");
        await untilAborted(context.io.interrupted);
        await oneAtATime(context, stateDir, () => takeDown(context, stateDir));
      }
    });
  return addConnectionOptions(verb);
}

/** `--fleet fleet.yaml` would bring up a fleet of that name, of whatever this machine has. */
function refuseFileAsName({ io: { cwd } }: CommandContext, fleet: string): void {
  if (!/\.ya?ml$/.test(fleet) || !existsSync(resolve(cwd, fleet))) return;
  throw new OrbweaverError(
    "BAD_INPUT",
    `--fleet names a fleet, and ${fleet} is a file. To bring up what it describes: orbweaver up ${fleet}`,
  );
}

function summaryOf(up: Up): object {
  const { fleet, stateDir, connection, control, workers, hosts, elsewhere, trust } = up;
  const { consoleUrl, api } = up;
  const { address, namespace, uiUrl } = connection;
  return {
    fleet,
    address,
    namespace,
    ...(uiUrl !== undefined && { ui: uiUrl }),
    ...(consoleUrl !== undefined && { console: consoleUrl }),
    ...(api !== undefined && { api }),
    stateDir,
    hosts,
    elsewhere,
    trust: trustWord(trust),
    control,
    workers,
  };
}

function printSummary(context: CommandContext, up: Up): void {
  const { fleet, connection, control, hosts, elsewhere, startedCount, trust } = up;
  const what = startedCount === 0 ? "was up already" : "is up";
  context.print(
    `fleet ${fleet} ${what}: ${counted(hosts, "host")} ready here, Temporal at ${connection.address}`,
  );
  if (up.consoleUrl !== undefined) context.print(`console: ${up.consoleUrl}`);
  if (connection.uiUrl !== undefined) context.print(`Temporal's Web UI: ${connection.uiUrl}`);
  if (control.mode !== "always-on") {
    context.print(
      `The control plane's workers start when there is work and end after ${durationText(control.idleMs)} without.`,
    );
  }
  context.print(`Agents here start ${trustText(trust)}.`);
  if (up.api !== undefined)
    context.print(
      `Users whom \`access\` in the fleet file admits ask \`orbweaver api\`${up.api.url === undefined ? "" : `, with tokens at ${up.api.url}`}.`,
    );
  if (elsewhere.length > 0) {
    const [example = ""] = elsewhere;
    const [cluster = "", host = ""] = example.split("/");
    context.print(
      `${counted(elsewhere.length, "host")} wait for their agents. On each of them, with TEMPORAL_ADDRESS set, run e.g.\n` +
        `  orbweaver agent --fleet ${fleet} --cluster ${cluster} --host ${host}`,
    );
  }
  if (startedCount > 0)
    context.print("Try: orbweaver run --gpus 2 -- sh -c 'echo rank $RANK; sleep 5'");
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => {
      resolve();
    });
    // Nothing else keeps this process alive.
    const heart = setInterval(() => undefined, 60_000);
    signal.addEventListener("abort", () => {
      clearInterval(heart);
    });
  });
}
