/**
 * @file The compiled file of a thread of this folder. Threads need compiled code, so sources (in unit tests) use the copy of
 * the last build.
 */

import { fileURLToPath } from "node:url";

/** `name`: the thread's source file without its ending. */
export function ownThreadFile(name: string): string {
  const here = fileURLToPath(new URL(`./${name}.js`, import.meta.url));
  return import.meta.url.endsWith(".ts")
    ? here.replace(/activities\/([^/]+)$/, "dist/activities/$1")
    : here;
}
