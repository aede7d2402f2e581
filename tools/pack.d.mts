import type { Lockfile } from "./supply-chain.mjs";

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly [key: string]: unknown;
}
export function packagesThatRun(lock: Lockfile, roots: readonly string[]): readonly string[];
export function manifestOf(whole: Manifest, lock: Lockfile): Readonly<Record<string, unknown>>;
/** Whether a package is passed on without this file; `name`: the package's. */
export function isFileLeftOut(name: string, file: string): boolean;
