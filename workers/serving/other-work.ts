/** @file How many processors other processes take meanwhile; counted by the system in steps of about 10 ms. */

import { cpus } from "node:os";

/** Begins to count; the answer is the mean number of processors that others have kept busy since. */
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
