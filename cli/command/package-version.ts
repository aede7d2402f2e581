/** @file The package's version, from package.json. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../workers/server/package-root.ts";

export function packageVersion(): string {
  const content: unknown = JSON.parse(readFileSync(join(packageRoot(), "package.json"), "utf8"));
  const isNamed = typeof content === "object" && content !== null && "version" in content;
  return isNamed ? String(content.version) : "unknown";
}
