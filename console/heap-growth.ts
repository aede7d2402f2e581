/**
 * @file How far the heap of a console's process may grow before it is collected.
 *
 * V8 lets a heap that is small beside the machine grow to four times what it keeps. Reading an older run of a large fleet makes hundreds of megabytes of copied
 * maps of which nothing is kept, so the process took three times what it needs. The bound is a share of what is kept and no number of bytes: a fleet of any
 * size is followed. It is V8's own, and read at each collection; the flags of a process are for its entry to set.
 */

import { setFlagsFromString } from "node:v8";

/**
 * How the process of a console is best started; whoever starts it by hand can give the same in its environment. Two young spaces of 2 MB in place of 16, and one
 * pool of native memory for all threads: each of V8's threads keeps what its own had at most. Both are read as the process begins.
 */
export const CONSOLE_PROCESS: {
  readonly flags: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
} = { flags: ["--max-semi-space-size=2"], variables: { MALLOC_ARENA_MAX: "1" } };

/** Of what is kept, in percent. */
const GROWTH_PERCENT = 30;

export function growHeapSlowly(): void {
  setFlagsFromString(`--heap-growing-percent=${String(GROWTH_PERCENT)}`);
}
