/** @file `orbweaver fleet upgrade [FLEET]`: commits the newest rules of this release to a fleet. */

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { identityOf } from "../../../agent/system/process-identity.ts";
import { upgradeFleet, type Upgraded } from "../../../client/rules/upgrade-fleet.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import type { WorkerIdentity } from "../../../protocol/worker-identity.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { wholeNumber } from "../../command/option-values.ts";
import type { Session } from "../../command/session.ts";

interface UpgradeValues extends ConnectionOptionValues {
  readonly wait?: number;
  readonly json?: boolean;
}

export function fleetUpgradeVerb(context: CommandContext): Command {
  const verb = context
    .verb("upgrade")
    .summary("commit the newest rules of this release")
    .description(
      "Lets a fleet follow the newest rules that this release knows. New workers follow a fleet's former rules until then, so the former release can take over again at any time; after the commit it gets no task, and there is no way back. Refused while a worker or agent of an older release is alive.",
    )
    .argument("[fleet]", "name of the fleet (default: the one of --fleet)")
    .option(
      "--wait <seconds>",
      "wait for the end of older workers and agents (default: refuse at once)",
      wholeNumber("--wait", 0),
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet upgrade", "commit, once all workers and agents are of this release"],
        ["orbweaver fleet upgrade prod --wait 90", "wait for killed ones to be forgotten"],
      ]),
    )
    .action(async (named: string | undefined, values: UpgradeValues) => {
      const chosen = named === undefined ? values : { ...values, fleet: named };
      await context.withSession(chosen, async (session) => {
        const { fleet, from, rules } = await upgraded(context, session, values.wait ?? 0);
        if (values.json === true) context.printJson({ fleet, from, rules });
        else if (from === rules) context.print(`fleet ${fleet} follows rules ${rules} already`);
        else context.print(`fleet ${fleet} follows rules ${rules} now, ${from} before`);
      });
    });
  return addConnectionOptions(verb);
}

const LOOK_EVERY_MS = 1_000;

async function upgraded(
  { io, say }: CommandContext,
  { temporal, fleet }: Session,
  waitSeconds: number,
): Promise<Upgraded> {
  const endAtMs = io.nowMs() + waitSeconds * 1_000;
  for (let isFirst = true; ; isFirst = false) {
    const nowMs = io.nowMs();
    try {
      return await upgradeFleet(temporal, fleet, { nowMs, isGone: isGoneHere });
    } catch (error) {
      const isWaiting = error instanceof OrbweaverError && error.code === "OLDER_PROCESSES_ALIVE";
      if (!isWaiting || nowMs >= endAtMs || io.interrupted.aborted) throw error;
      if (isFirst) say(error.message);
    }
    await sleep(LOOK_EVERY_MS);
  }
}

/** A process of this machine shows whether it still runs; one of another machine does not. */
export const isGoneHere = ({ pid, host }: WorkerIdentity): boolean =>
  host === hostname() && identityOf(pid) === undefined;
