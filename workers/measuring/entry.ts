/** @file The program of a measuring job; its order is in its environment. */

import { runMeasuring } from "./run.ts";

try {
  await runMeasuring({
    env: process.env,
    write: (line) => process.stdout.write(`${line}\n`),
    nowMs: () => Date.now(),
  });
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
