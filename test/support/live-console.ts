/** @file A console of the build beside a world, as a process of its own, with a history database. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { createInterface } from "node:readline";
import { ROOT, type World } from "./world.ts";

export interface LiveConsole {
  readonly url: string;
  readonly scrape: () => Promise<string>;
  /** Ends it as `kill -9` does and waits until it is gone; twice is once. */
  readonly kill: () => Promise<void>;
}

export const historyFileOf = (world: World): string => path.join(world.stateDir, "history.db");

export async function startLiveConsole(
  world: World,
  more: readonly string[] = [],
): Promise<LiveConsole> {
  const verb = ["console", "--port", "0", "--history", historyFileOf(world), "--json", ...more];
  const child = spawn(process.execPath, [path.join(ROOT, "dist/cli/main.js"), ...verb], {
    env: world.env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let document = "";
  for await (const line of createInterface({ input: child.stdout })) {
    document += line;
    if (line === "}") break;
  }
  const { url } = JSON.parse(document) as { readonly url: string };
  return {
    url,
    scrape: async () => await (await fetch(`${url}metrics`)).text(),
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
  };
}

/** The sum of a metric's series; undefined where it has none. */
export function valueOf(text: string, series: string): number | undefined {
  const lines = text.split("\n").filter((line) => line.startsWith(series));
  if (lines.length === 0) return undefined;
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}
