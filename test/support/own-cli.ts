/** @file The built command line with a state folder of its own, for tests that bring up a fleet as a user would. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { withoutTemporal } from "../../workers/server/index.ts";
import { ROOT } from "./world.ts";

/** Runs a command of the fleet and gives its standard output; fails unless it ends with 0. */
export type Cli = (...words: readonly string[]) => Promise<string>;

/** `before`: words that become the command. */
export function cliOf(fleet: string, stateDir: () => string, before: readonly string[] = []): Cli {
  return async (...words) => {
    const own = [process.execPath, join(ROOT, "dist/cli/main.js"), ...words];
    const [program = "", ...rest] = [...before, ...own];
    const child = spawn(program, rest, {
      env: {
        ...withoutTemporal(process.env),
        ORBWEAVER_STATE_DIR: stateDir(),
        ORBWEAVER_FLEET: fleet,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    const [code] = await once(child, "close");
    if (code !== 0) throw new Error(`orbweaver ${words.join(" ")}: ${String(code)}\n${stderr}`);
    return stdout;
  };
}
