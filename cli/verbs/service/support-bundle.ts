/** @file `orbweaver support-bundle`: what somebody who helps needs to know of a fleet and this machine, in a folder of texts without secrets. */

import type { Command } from "commander";
import { lstatSync, readdirSync } from "node:fs";
import { arch, cpus, loadavg, release, totalmem, uptime } from "node:os";
import { basename, join, resolve } from "node:path";
import { openClient } from "../../../workers/connection.ts";
import { fleetStateDir, readUpState, type UpState } from "../../../workers/state.ts";
import { OrbweaverClient } from "../../../client/index.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import { packageVersion } from "../../command/package-version.ts";
import { connectionFor } from "../../command/session.ts";
import { examine } from "../../doctor/examine.ts";
import { writeBundle } from "../../support/bundle.ts";
import { secretValues } from "../../support/redact.ts";

const ANSWER_WITHIN_MS = 10_000;
const OURS = /^(ORBWEAVER|TEMPORAL|NODE|XDG)_/;

export function supportBundleVerb(context: CommandContext): Command {
  const verb = context
    .verb("support-bundle")
    .summary("gather what helpers need, without secrets")
    .description(
      "Writes texts into a new folder, for you to read and send: what `orbweaver doctor` finds, versions and sizes of this machine, the fleet's ledger (names of jobs, tenants and hosts among it), its metrics, and the last lines of the logs of servers, workers and agents here. Keys, values of environment variables, job files, output of jobs and the fleet file are not in it, and what has the form of a secret is taken out. Look through it before you send it.",
    )
    .argument("<folder>", "a new folder")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver support-bundle /tmp/bundle", "what helpers need of your fleet"],
        ["orbweaver support-bundle b --fleet prod --json", "of one fleet, for a script"],
      ]),
    )
    .action(async (name: string, values: ConnectionOptionValues & { readonly json?: boolean }) => {
      const { io } = context;
      const fleet = fleetNamed(values, io.env);
      const folder = resolve(io.cwd, name);
      const stateDir = fleetStateDir(io.env, fleet);
      const state = await readUpState(stateDir);
      const missing: string[] = [];
      const asked = async (
        what: string,
        text: () => Promise<string>,
      ): Promise<readonly [string, string][]> => {
        try {
          return [[what, await text()]];
        } catch (error) {
          missing.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
          return [];
        }
      };
      const texts = new Map([
        ...(await asked("doctor.json", async () => pretty(await examine(context, values)))),
        ...(await asked("machine.json", async () => pretty(await machineOf(stateDir)))),
        ...(await asked("environment.txt", async () => await Promise.resolve(namesIn(io.env)))),
        ...(state === undefined ? [] : ([["up.json", pretty(state)]] as const)),
        ...(await asked("ledger.json", () => ledgerOf(context, values, fleet))),
        ...(state?.consoleUrl === undefined
          ? []
          : await asked("metrics.txt", () => metricsOf(state.consoleUrl ?? ""))),
      ]);
      const files = writeBundle({
        folder,
        texts,
        logs: logsOf(state),
        secrets: secretValues(io.env),
      });
      if (values.json === true) return context.printJson({ fleet, folder, files, missing });
      context.print(`${folder}: ${files.join(", ")}`);
      for (const each of missing) context.say(`not in it: ${each}`);
      context.say("look through it before you send it: names of jobs, tenants and hosts are in it");
    });
  return addConnectionOptions(verb);
}

const pretty = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/** The names alone. */
const namesIn = (env: Readonly<Record<string, string | undefined>>): string =>
  `${Object.keys(env)
    .filter((name) => OURS.test(name))
    .sort()
    .join("\n")}\n`;

async function machineOf(stateDir: string): Promise<object> {
  return await Promise.resolve({
    ...{ orbweaver: packageVersion(), node: process.version, platform: process.platform },
    ...{ kernel: release(), arch: arch(), processors: cpus().length, load: loadavg() },
    ...{ memoryBytes: totalmem(), uptimeSeconds: uptime() },
    state: sizesIn(stateDir),
  });
}

/** Bytes under each entry of a folder. */
function sizesIn(folder: string): Readonly<Record<string, number>> {
  const names =
    lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() === true ? readdirSync(folder) : [];
  return Object.fromEntries(names.sort().map((name) => [name, bytesUnder(join(folder, name))]));
}

function bytesUnder(place: string): number {
  const found = lstatSync(place, { throwIfNoEntry: false });
  if (found === undefined) return 0;
  if (!found.isDirectory()) return found.size;
  return readdirSync(place).reduce((sum, name) => sum + bytesUnder(join(place, name)), 0);
}

async function ledgerOf(
  { io }: CommandContext,
  values: ConnectionOptionValues,
  fleet: string,
): Promise<string> {
  const { client, close } = await openClient(await connectionFor(values, io));
  try {
    return pretty(packLedger(await new OrbweaverClient(client, { fleet }).fleet()));
  } finally {
    await close();
  }
}

async function metricsOf(consoleUrl: string): Promise<string> {
  const answer = await fetch(`${consoleUrl}/metrics`, {
    signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return await answer.text();
}

/** Of what `up` started here. */
function logsOf(state: UpState | undefined): ReadonlyMap<string, string> {
  const files = [state?.server, ...(state?.workers ?? [])].flatMap((one) => one?.logFile ?? []);
  return new Map(files.map((file) => [basename(file), file]));
}
