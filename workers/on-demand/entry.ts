/**
 * @file The process of a worker on demand: `node entry.js <role> <setting file>`.
 *
 * A task waits for this process, so it makes every possible decision before it loads Temporal's libraries: whether the fleet is
 * up, whether the role is served already, and whether the other role must be started too.
 */

import { fileURLToPath } from "node:url";
import { loadBundled } from "../bundled.ts";
import { isControlRole, siblingOf } from "./places.ts";
import { isRoleServed, takeRoleLock } from "./role-lock.ts";
import type * as Run from "./run.ts";
import { readOnDemandSetting } from "./setting.ts";
import { startDetached } from "./start.ts";

const [role, settingFile = ""] = process.argv.slice(2);
if (!isControlRole(role)) throw new Error(`unknown role ${String(role)}: fleet, jobs or solver`);
const setting = readOnDemandSetting(settingFile);
const lock =
  setting === undefined ? undefined : takeRoleLock(setting.stateDir, role, setting.buildId);
if (setting !== undefined && lock !== undefined) {
  const { stateDir, buildId } = setting;
  const sibling = siblingOf(role);
  if (sibling !== undefined && !isRoleServed(stateDir, sibling, buildId))
    startDetached(sibling, setting);
  // The command line's bundle has the rest, and loads in a tenth of its time.
  const bundle = fileURLToPath(new URL("../../cli/whole.cjs", import.meta.url));
  const { runOnDemand } = loadBundled<typeof Run>(bundle) ?? (await import("./run.ts"));
  process.exitCode = await runOnDemand({ role, setting, lock });
  // Nothing that is still open may keep an idle process alive.
  process.exit();
}
