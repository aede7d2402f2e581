/** @file `npm run demo`: set-up, then the demo itself. Everything but the JSON goes to stderr. */

import { spawn } from "node:child_process";
import path from "node:path";
import { flagsOf, ownEnvironment, ROOT, setup } from "./setup.mjs";

const flags = flagsOf("npm run demo [-- --keep] [-- --json]: a fleet at work on this machine.", {
  keep: "leave the fleet running",
  json: "one JSON document on stdout",
});
try {
  await setup();
  const child = spawn(
    process.execPath,
    [path.join(ROOT, "dist/cli/demo/main.js"), ...[...flags].map((flag) => `--${flag}`)],
    {
      stdio: "inherit",
      env: ownEnvironment(),
    },
  );
  // Ctrl-C reaches the demo too, which ends what it started; this process waits for it.
  process.on("SIGINT", () => {});
  child.on("exit", (code, signal) => {
    process.exitCode = code ?? (signal === null ? 1 : 130);
  });
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
}
