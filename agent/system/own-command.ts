/**
 * @file `orbweaver` as the program of a run is the agent's own installation, not the one on the host's PATH.
 *
 * So a job can serve a model, or use the command line, on hosts where only the agent is installed.
 */

import { dirname, join } from "node:path";
import type { Files } from "../ports/files.ts";

/** `shimPath` is a file of the installation. */
export function ownCommand(
  command: readonly string[],
  shimPath: string,
  { stat }: Pick<Files, "stat">,
): readonly string[] {
  const [program, ...words] = command;
  const cli = join(dirname(shimPath), "..", "cli", "main.js");
  return program === "orbweaver" && stat(cli) !== undefined
    ? [process.execPath, cli, ...words]
    : command;
}
