/**
 * @file `orbweaver` as the program of a run: the agent's own installation, whatever lies on the host's PATH.
 *
 * So a job can serve a model, or use the command line, on hosts where nobody has installed anything but the agent.
 */

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/** `shimPath` is a file of the installation. */
export function ownCommand(command: readonly string[], shimPath: string): readonly string[] {
  const [program, ...words] = command;
  const cli = join(dirname(shimPath), "..", "cli", "main.js");
  return program === "orbweaver" && existsSync(cli) ? [process.execPath, cli, ...words] : command;
}
