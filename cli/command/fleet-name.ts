/** @file The name of the fleet that a verb works on. */

import { DEFAULT_FLEET } from "../../protocol/messages.ts";
import type { Environment } from "../../workers/server/environment.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";

/** The flag, else ORBWEAVER_FLEET, else `default`. */
export function fleetNamed(values: ConnectionOptionValues, env: Environment): string {
  const named = values.fleet ?? env["ORBWEAVER_FLEET"];
  return named === undefined || named === "" ? DEFAULT_FLEET : named;
}

/** Warns when the fleet's file has another name for the fleet than the verbs. */
export function warnOfOtherName(
  { say }: { readonly say: (text: string) => void },
  fleet: string,
  inFile: string,
): void {
  if (inFile === DEFAULT_FLEET || inFile === fleet) return;
  say(
    `the file names this fleet ${inFile}, but it runs as ${fleet}. To use the file's name, give --fleet ${inFile} to this and later commands.`,
  );
}
