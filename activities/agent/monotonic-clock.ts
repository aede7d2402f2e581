/**
 * @file A clock that nobody sets and that goes on while the machine sleeps: time since the machine started.
 *
 * Linux: the first field of `/proc/uptime`, in steps of 10 ms. Elsewhere whole seconds. It reads the same in every process of the
 * machine, so agent and shims may compare what the other has written down; it means nothing after a restart of the machine.
 * Loaded by the shim, so it needs nothing but Node.
 */

import { uptime } from "node:os";

/** Gives milliseconds; tests put their own in its place. */
export type Clock = () => number;

export const sinceBootMs: Clock = () => uptime() * 1_000;
