/** @file The root folder of Orbweaver's package, equal for sources and compiled code. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The nearest folder above `from` whose package.json is Orbweaver's. */
export function packageRoot(from: string = import.meta.url): string {
  let folder = dirname(fileURLToPath(from));
  for (;;) {
    const file = join(folder, "package.json");
    if (existsSync(file) && isOrbweaver(readFileSync(file, "utf8"))) return folder;
    const parent = dirname(folder);
    if (parent === folder) {
      throw new Error(`no package.json of "orbweaver" above ${fileURLToPath(from)}: reinstall it`);
    }
    folder = parent;
  }
}

/** The compiled command line, a script for Node: Node 20 does not run the sources. */
export const commandLine = (): string => join(packageRoot(), "dist", "cli", "main.js");

function isOrbweaver(text: string): boolean {
  const content: unknown = JSON.parse(text);
  return (
    typeof content === "object" &&
    content !== null &&
    "name" in content &&
    content.name === "orbweaver"
  );
}
