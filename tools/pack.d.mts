import type { Lockfile } from "./supply-chain.mjs";

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly [key: string]: unknown;
}
export function packagesThatRun(lock: Lockfile, roots: readonly string[]): readonly string[];
export function manifestOf(whole: Manifest, lock: Lockfile): Readonly<Record<string, unknown>>;
/** Puts the whole manifest back in place of the package's; the files. */
export function takeBack(manifest: string, whole: string): void;
/** Copies a package's folder as it is passed on; `name`: the package's. */
export function copyLean(name: string, from: string, to: string): void;
/** Whether a package is passed on without this file; `name`: the package's. */
export function isFileLeftOut(name: string, file: string): boolean;
