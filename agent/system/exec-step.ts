/**
 * @file The exec step: what a process does to itself between its start and its program. A line of `sh` joins the groups and then becomes the
 * program, under the same pid. It also offers itself to the kernel's out-of-memory killer before agent and shims.
 *
 * Further steps (another user, fewer privileges) are words before the program that become it, as `setpriv` does.
 * Cost: one start of `sh`, about 1 ms. Loaded by the shim, so it needs nothing but Node.
 */

import { accessSync, constants, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { hasErrorCode } from "../../lib/error-code.ts";

/** Of a step that failed, so that no program ran. */
const NOT_JOINED = 125;
/** From -1000 to 1000; the agent and its shims have the value of their user's session, mostly 0. */
const OOM_SCORE = 500;
/** Open files of one process. A step to the job's user may only lower it (`access/run-as.ts`). */
export const MOST_FILES = 65_536;
/** Where the system looks when the environment says nothing. */
const DEFAULT_PATH = "/bin:/usr/bin";

const SCRIPT = [
  `echo ${OOM_SCORE} 2>/dev/null > /proc/self/oom_score_adj`,
  // A limit that is lower already stays where it may not be raised.
  `ulimit -n ${MOST_FILES} 2>/dev/null`,
  'while [ "$1" != -- ]; do',
  // A thread by itself joins a group of version 1 at once; for a whole process the kernel waits until no processor forks.
  '  file="$1/tasks"; [ -w "$file" ] || file="$1/cgroup.procs"',
  `  echo 0 > "$file" || { echo "orbweaver: this process cannot join $1" >&2; exit ${NOT_JOINED}; }`,
  "  shift",
  "done",
  "shift",
  'exec "$@"',
].join("\n");

/** The command of a process that joins the groups first. */
export const withExecStep = (
  groups: readonly string[],
  command: readonly string[],
): readonly string[] => ["/bin/sh", "-c", SCRIPT, "orbweaver", ...groups, "--", ...command];

/**
 * Why the system could not execute the program, found before the step: after it the reason would be an exit status like the program's own.
 * Undefined when nothing speaks against it.
 */
export function execTrouble(
  program: string,
  { cwd, path }: { readonly cwd: string; readonly path: string | undefined },
): (Error & { readonly code: string }) | undefined {
  const places = program.includes("/")
    ? [resolve(cwd, program)]
    : (path ?? DEFAULT_PATH).split(":").map((dir) => join(resolve(cwd, dir), program));
  const codes = places.map(troubleAt);
  if (program !== "" && codes.includes(undefined)) return undefined;
  const code = codes.includes("EACCES") ? "EACCES" : "ENOENT";
  return Object.assign(new Error(`spawn ${program} ${code}`), { code });
}

function troubleAt(path: string): "EACCES" | "ENOENT" | undefined {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile() ? undefined : "EACCES";
  } catch (error) {
    return hasErrorCode(error, "EACCES") ? "EACCES" : "ENOENT";
  }
}
