/**
 * @file Finds the native supervisor of this installation (`agent/native/`, compiled by `tools/build.mjs`), by starting it.
 *
 * Without one, as on a machine without a C compiler, the shim in Node supervises every launch.
 */

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { NATIVE_PROTOCOL } from "../runs/plan-words.ts";

/** `auto` takes the native supervisor where it works, `node` the shim in Node, `native` refuses to do without. */
export const SUPERVISOR_VARIABLE = "ORBWEAVER_SUPERVISOR";
const CHOICES: readonly string[] = ["auto", "native", "node"];
const TRIAL_MS = 5_000;

/** Its place in an installation. */
export const nativeFile = (root: string): string =>
  join(root, "dist/agent/native", `supervisor-${process.platform}-${process.arch}`);

/** Undefined where launches are the shim's. Throws BAD_INPUT for a choice that cannot be had. */
export function findNative(path: string, asked?: string): string | undefined {
  const choice = asked === undefined || asked === "" ? "auto" : asked;
  if (!CHOICES.includes(choice))
    throw new OrbweaverError(
      "BAD_INPUT",
      `${SUPERVISOR_VARIABLE} is ${JSON.stringify(choice)}; it may be ${CHOICES.join(", ")}`,
    );
  if (choice === "node") return undefined;
  const { stdout } = spawnSync(path, ["--protocol"], { encoding: "utf8", timeout: TRIAL_MS });
  if (stdout?.trim() === NATIVE_PROTOCOL) return path;
  if (choice === "native")
    throw new OrbweaverError(
      "BAD_INPUT",
      `${SUPERVISOR_VARIABLE} asks for the native supervisor, and ${path} does not run here. Install a C compiler with a static C library and run \`npm run build\`, or leave the variable out.`,
    );
  return undefined;
}
