/**
 * @file The one file that the build has made of a thread of this folder and all that it imports. Threads need compiled code, so sources (in unit
 * tests) use the copy of the last build.
 */

import { fileURLToPath } from "node:url";

/** `name`: the thread's source file without its ending. */
export function ownThreadFile(name: string): string {
  const here = fileURLToPath(new URL(`./${name}.cjs`, import.meta.url));
  return import.meta.url.endsWith(".ts")
    ? here.replace(/activities\/([^/]+)$/, "dist/activities/$1")
    : here;
}
