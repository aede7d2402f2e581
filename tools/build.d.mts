import type { SpawnSyncReturns } from "node:child_process";

/** The result of the compiler, with `error` where there is none. */
export function compileSupervisor(folder: string, out: string): SpawnSyncReturns<string>;
