/** @file The number of processors that other processes use at the moment, from the system's counts in steps of about 10 ms. */

import { cpus } from "node:os";

/** Starts to count; the result returns the mean number of processors that others have used since. */
export function watchOthers(): () => number {
  const before = { busyMs: busyMs(), own: process.cpuUsage(), atMs: performance.now() };
  return () => {
    const { user, system } = process.cpuUsage(before.own);
    const othersMs = busyMs() - before.busyMs - (user + system) / 1_000;
    return Math.max(0, othersMs / (performance.now() - before.atMs));
  };
}

const busyMs = (): number =>
  cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
