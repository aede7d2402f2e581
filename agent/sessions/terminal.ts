/**
 * @file A terminal for a command of a session, by `script` of util-linux: Node has none of its own. Its size is set through its device, found at the first
 * process below `script`; the kernel then tells the programs in front.
 */

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { shellQuoted } from "../../lib/shell-word.ts";
import type { SessionStart, TerminalSize } from "../../protocol/session-contract.ts";

type Terminal = NonNullable<SessionStart["terminal"]>;

const SCRIPT = "/usr/bin/script";

/** Why a command gets no terminal here; undefined when it does. */
export const terminalTrouble = (): string | undefined =>
  existsSync(SCRIPT) ? undefined : `this host has no ${SCRIPT} (util-linux), so no terminal`;

/** The command that runs another one at a terminal of its own, and ends with its status. */
export function atTerminal(command: readonly string[], { rows, columns }: Terminal): string[] {
  const size = `stty rows ${String(rows)} cols ${String(columns)}`;
  return [SCRIPT, "-qfec", `${size}; exec ${command.map(shellQuoted).join(" ")}`, "/dev/null"];
}

/** `script` starts its line by the shell of this environment. */
export const terminalEnv = ({ name }: Terminal): Readonly<Record<string, string>> => ({
  ...{ TERM: name, SHELL: "/bin/sh" },
});

export function resize(scriptPid: number, { rows, columns }: TerminalSize): void {
  const pid = String(scriptPid);
  try {
    const [first = ""] = readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").split(" ");
    const device = readlinkSync(`/proc/${first}/fd/0`);
    if (!/^\/dev\/pts\/\d+$/.test(device)) return;
    // The command can show any terminal there, without a right to it, and root would reach it.
    if (statSync(device).uid !== statSync(`/proc/${first}`).uid) return;
    const words = ["-F", device, "rows", String(rows), "cols", String(columns)];
    spawnSync("stty", words, { stdio: "ignore", timeout: 1_000 });
  } catch {
    // It has ended, or has not begun: the next size is taken.
  }
}
