/** @file The file of a thread of this folder. Threads need compiled code: from the sources (as tests run them) the build's copy is used. */

import { fileURLToPath } from "node:url";

/** `name`: of the thread's source, without its ending. */
export function ownThreadFile(name: string): string {
  const here = fileURLToPath(new URL(`./${name}.js`, import.meta.url));
  return import.meta.url.endsWith(".ts")
    ? here.replace(/activities\/([^/]+)$/, "dist/activities/$1")
    : here;
}
