/** @file The id of this build of Orbweaver: two processes with the same id run the same code. */

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../server/package-root.ts";

/** The package's version and a hash of the sources of the build. */
export function ownBuildId(root: string = packageRoot()): string {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly version: string; // npm refuses a package without it
  };
  const hash = createHash("sha256");
  // The stamp covers every source; the bundle stands in where a package was made without the stamp.
  const stamp = join(root, "dist", ".stamp");
  const made = existsSync(stamp) ? stamp : join(root, "dist", "workflow-bundle.js");
  return `${version}-${hash.update(readFileSync(made)).digest("hex").slice(0, 12)}`;
}
