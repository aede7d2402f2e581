export interface LockedPackage {
  readonly place: string;
  readonly name: string;
  readonly version: string;
  readonly integrity?: string;
  readonly licence?: string;
}
export interface Lockfile {
  readonly packages: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}
export function packagesOf(lock: Lockfile): readonly LockedPackage[];
export function faultsOf(lock: Lockfile): readonly string[];
export function readLock(): Lockfile;
