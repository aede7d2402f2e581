/**
 * @file The sample texts that parsers are held against: those of the repository, and the larger collection in
 * `shared/datasets` where that folder lies beside the checkout (its licences do not let all of it in here).
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const SHARED = join(ROOT, "..", "shared", "datasets");

export interface Sample {
  /** File name, unique in a list. */
  readonly name: string;
  readonly text: string;
}

export const dataText = (path: string): string => readFileSync(join(ROOT, "data", path), "utf8");

/** Samples under the fixture folders and, where present, the shared ones; a name counts once. */
export function samples(fixtures: readonly string[], shared: readonly string[]): Sample[] {
  const folders = [
    ...fixtures.map((folder) => join(ROOT, folder)),
    ...shared.map((folder) => join(SHARED, folder)).filter((folder) => existsSync(folder)),
  ];
  const byName = new Map<string, Sample>();
  for (const folder of folders) {
    for (const name of readdirSync(folder).sort()) {
      if (!/\.(txt|log)$/.test(name) || byName.has(name)) continue;
      byName.set(name, { name, text: readFileSync(join(folder, name), "utf8") });
    }
  }
  return [...byName.values()];
}

export const fixtureText = (path: string): string =>
  readFileSync(join(ROOT, "test", "fixtures", path), "utf8");
