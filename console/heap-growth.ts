/**
 * @file How far the heap of a console's process may grow before it is collected.
 *
 * V8 lets a heap that is small beside the machine grow to four times what it keeps. Reading an older run of a large fleet makes hundreds of megabytes of copied
 * maps of which nothing is kept, so the process took three times what it needs. The bound is a share of what is kept and no number of bytes: a fleet of any
 * size is followed. It is V8's own, and read at each collection; the flags of a process are for its entry to set.
 */

import { setFlagsFromString } from "node:v8";

/** Of what is kept, in percent. */
const GROWTH_PERCENT = 30;

export function growHeapSlowly(): void {
  setFlagsFromString(`--heap-growing-percent=${String(GROWTH_PERCENT)}`);
}
