/** @file `orbweaver drain HOST…`: stops new grants on these hosts, now or at a time; their runs continue. With `--reboot`, a rolling reboot. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Option, type Command } from "commander";
import { hostsNamed } from "../../../client/fencing.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import type { NamedGpus } from "../../../client/named-gpus.ts";
import type { HostId } from "../../../domain/values/ids.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { durationMs, gpuList, wholeNumber } from "../../command/option-values.ts";
import { REBOOT_REASON, rollHosts, type RebootStep } from "../../command/rolling-reboot.ts";
import { wallTime } from "../../command/wall-time.ts";
import { gpusText } from "../../text/drained-hosts.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { timeText } from "../../terminal/duration.ts";

interface DrainValues extends ConnectionOptionValues {
  readonly reason?: string;
  readonly at?: string;
  readonly gpu?: readonly number[];
  readonly reboot?: boolean;
  readonly parallel: number;
  readonly command?: string;
  readonly backWithin: number;
  readonly json?: boolean;
}

const REASON = "drained by hand";
const BACK_WITHIN_MS = 900_000;
const MAX_BACK_MS = 86_400_000;
const LOOK_EVERY_MS = 2_000;

export function drainVerb(context: CommandContext): Command {
  const verb = context
    .verb("drain")
    .summary("stop granting hosts, or GPUs of them")
    .description(
      "Takes hosts out of scheduling until `orbweaver undrain`. Running jobs continue to their end. `orbweaver fleet show` lists drained hosts with their reasons, and planned drains.\n\n--gpu takes single GPUs out, and the rest of the host is granted on; they are numbered from 0, as `orbweaver fleet show` draws them.\n\n--at plans it; the server keeps the time, and undrain calls it off. Jobs may start until then: a `maintenance` of the fleet file keeps out those that would not end before.\n\n--reboot takes the hosts in turn, at most --parallel at a time: drains each, runs your command once nothing holds its GPUs, waits until its agent answers anew, and takes it back. The command is run by sh on this machine, with ORBWEAVER_HOST (cluster/host) and ORBWEAVER_HOST_NAME. A host that fails stays drained, and no further one is begun. Cut off, it may be repeated with the hosts that are left.",
    )
    .argument("<host...>", "hosts as <cluster>/<host>; `orbweaver fleet show` lists them")
    .option("--reason <text>", `reason that \`orbweaver fleet show\` lists (default: ${REASON})`)
    .option("--at <time>", "drain at this time: 22:00, 2026-03-01T22:00 or +2h")
    .addOption(
      new Option("--gpu <numbers>", "these GPUs of each host alone, e.g. 3 or 3,5").argParser(
        gpuList,
      ),
    )
    .option("--reboot", "reboot the hosts in turn")
    .option(
      "--parallel <count>",
      "with --reboot: most hosts out at a time",
      wholeNumber("--parallel", 1),
      1,
    )
    .option(
      "--command <line>",
      "with --reboot: what reboots a host (default: ORBWEAVER_REBOOT_COMMAND)",
    )
    .addOption(
      new Option("--back-within <duration>", "with --reboot: time for the agent to answer anew")
        .argParser(durationMs("--back-within", { leastMs: 1_000, mostMs: MAX_BACK_MS }))
        .default(BACK_WITHIN_MS, "15m"),
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ['orbweaver drain eu-1/host-3 --reason "bad NVLink"', "drain a host before a repair"],
        [
          'orbweaver drain eu-1/host-3 --gpu 3 --reason "ECC errors"',
          "one GPU; the others are granted on",
        ],
        ["orbweaver drain eu-1/host-3 --at 22:00", "tonight"],
        [
          "orbweaver drain eu-1/host-1 eu-1/host-2 --reboot --command 'ssh $ORBWEAVER_HOST_NAME sudo reboot'",
          "reboot two hosts, one after the other",
        ],
      ]),
    )
    .action(async (hosts: readonly string[], values: DrainValues) => {
      if (values.gpu !== undefined)
        return await drainGpus(context, { hosts, gpus: values.gpu }, values);
      if (values.reboot === true) return await reboot(context, hosts, values);
      if (values.command !== undefined || values.parallel !== 1)
        throw new OrbweaverError(
          "BAD_INPUT",
          "--command and --parallel are of a rolling reboot. Add --reboot, or leave them out.",
        );
      const { at, reason = REASON, json } = values;
      const atMs = at === undefined ? undefined : wallTime("--at", at, context.io.nowMs());
      const drained = await context.withFleet(values, ({ client }) =>
        atMs === undefined
          ? client.drain(hosts, reason)
          : client.planDrain(hosts, { atMs, reason }),
      );
      if (json === true)
        context.printJson(atMs === undefined ? { drained } : { planned: drained, atMs });
      else
        for (const host of drained)
          context.print(
            `${host}  ${atMs === undefined ? "drained" : `will be drained on ${timeText(atMs)}`}`,
          );
    });
  return addServiceOptions(verb);
}

async function drainGpus(
  context: CommandContext,
  named: NamedGpus,
  values: DrainValues,
): Promise<void> {
  const { at, reboot: isReboot, command, parallel } = values;
  if (at !== undefined || isReboot === true || command !== undefined || parallel !== 1)
    throw new OrbweaverError(
      "BAD_INPUT",
      "--at, and --reboot with its options, are of whole hosts. Leave --gpu or the others out.",
    );
  const { reason = REASON, json } = values;
  await context.withFleet(values, ({ client }) => client.drainGpus(named, reason));
  if (json === true) context.printJson({ drained: named.hosts, gpus: named.gpus });
  else for (const host of named.hosts) context.print(`${host} ${gpusText(named.gpus)}  drained`);
}

async function reboot(
  context: CommandContext,
  names: readonly string[],
  values: DrainValues,
): Promise<void> {
  const { io } = context;
  const line = values.command ?? io.env["ORBWEAVER_REBOOT_COMMAND"] ?? "";
  if (line === "")
    throw new OrbweaverError(
      "BAD_INPUT",
      "--reboot does not know how to reboot a host. Give --command 'ssh $ORBWEAVER_HOST_NAME sudo reboot', or set ORBWEAVER_REBOOT_COMMAND.",
    );
  if (values.at !== undefined || values.reason !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `--reboot begins now, and its reason is "${REBOOT_REASON}". Leave --at and --reason out.`,
    );
  const { parallel, backWithin, json } = values;
  await context.withFleet(values, async ({ client, fleet }) => {
    const hosts = hostsNamed(await client.fleet(), names, fleet);
    const result = await rollHosts(
      hosts,
      { parallel, backWithinMs: backWithin },
      {
        fleet: () => client.fleet(),
        drain: (host) => client.drain([host], REBOOT_REASON),
        undrain: (host) => client.undrain([host]),
        reboot: (host) => runFor(host, line, io.env),
        say: (host, step) => context.say(`${host}  ${stepText(step)}`),
        pause: () => sleep(LOOK_EVERY_MS),
        nowMs: io.nowMs,
      },
    );
    const { back, failed, left } = result;
    if (json === true) context.printJson(result);
    else {
      for (const host of back) context.print(`${host}  rebooted, in service`);
      for (const { host, why } of failed) context.print(`${host}  drained: ${why}`);
      for (const host of left) context.print(`${host}  not begun`);
    }
    if (failed.length > 0) context.exitWith(EXIT.failure);
  });
}

function stepText(step: RebootStep): string {
  switch (step.kind) {
    case "drained":
      return step.leases === 0
        ? "drained"
        : `drained; ${String(step.leases)} lease${step.leases === 1 ? "" : "s"} to end`;
    case "rebooting":
      return "the reboot command runs";
    case "back":
      return "rebooted, in service";
    case "failed":
      return `failed, and stays drained: ${step.why}`;
  }
}

/** Undefined when the command has ended with status 0. */
async function runFor(
  host: HostId,
  line: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string | undefined> {
  const name = host.slice(host.indexOf("/") + 1);
  const child = spawn("sh", ["-c", line], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...env, ORBWEAVER_HOST: host, ORBWEAVER_HOST_NAME: name },
  });
  let status: number | null;
  let signal: string | null;
  try {
    [status, signal] = (await once(child, "close")) as [number | null, string | null];
  } catch (error) {
    return `its reboot command could not be started: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (status === 0) return undefined;
  return `its reboot command ended with ${status === null ? String(signal) : `status ${String(status)}`}`;
}
