import type { SpawnSyncReturns } from "node:child_process";

/** The result of the compiler, with `error` where there is none. */
export function compileProgram(name: "supervisor" | "nvml", out: string): SpawnSyncReturns<string>;
