/**
 * @file Checks every digest of values (test/digests); `--only SUBJECT` checks those of one subject, `--write` freezes what is found.
 *
 * Before a change that moves or renames code and after it, the digests are equal.
 */

import { spawnSync } from "node:child_process";
import path from "node:path";
import { parseArgs } from "node:util";
import { ROOT } from "./setup.mjs";

const { values: asked } = parseArgs({
  options: { only: { type: "string" }, write: { type: "boolean", default: false } },
});
const vitest = path.join(ROOT, "node_modules/vitest/vitest.mjs");
const done = spawnSync(
  process.execPath,
  [vitest, "run", "--project", "unit", "--reporter=verbose", "test/digests"],
  {
    cwd: ROOT,
    env: {
      ...process.env,
      ORBWEAVER_DIGESTS: "all",
      ...(asked.only !== undefined && { ORBWEAVER_DIGESTS_ONLY: asked.only }),
      ...(asked.write && { ORBWEAVER_DIGESTS_WRITE: "yes" }),
    },
    stdio: "inherit",
  },
);
process.exitCode = done.status ?? 1;
