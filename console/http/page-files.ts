/** @file The built page, read once; `tools/build.mjs` puts it into `dist/page/`. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Answer } from "./server.ts";

const FILES = [
  ["/", "index.html", "text/html; charset=utf-8"],
  ["/page.js", "page.js", "text/javascript; charset=utf-8"],
  ["/page.css", "page.css", "text/css; charset=utf-8"],
  ["/icon.svg", "icon.svg", "image/svg+xml"],
] as const;

/** `root`: the folder of the package. */
export const readPage = (root: string): ReadonlyMap<string, Answer> =>
  new Map(
    FILES.map(([path, file, type]) => [
      path,
      { status: 200, type, body: readFileSync(join(root, "dist", "page", file)) },
    ]),
  );
