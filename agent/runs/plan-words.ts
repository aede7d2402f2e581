/**
 * @file Which supervisor starts a launch, and the launch's plan in the words that the native one reads (`agent/native/plan.c`).
 *
 * The native supervisor costs a fraction of the shim in Node and keeps the same promises; batches of array tasks are the shim's. It parses no JSON:
 * each word ends in a NUL byte, and a list is its length and then its words.
 */

import { groupsOf, type Container } from "../containment/container.ts";
import type { LaunchPlan } from "../folder/launch-files.ts";

/** Of these words and files. `supervisor --protocol` prints it; another one is not used. */
export const NATIVE_PROTOCOL = "orbweaver-supervisor-3";
const NONE = -1;

/** Undefined for a launch that only the shim in Node can supervise. */
export function planWords(plan: LaunchPlan, container: Container): string | undefined {
  const { command, cwd, secrets = [], ranks, graceMs, timeLimitMs = NONE, log, batch } = plan;
  const words = [
    NATIVE_PROTOCOL,
    ...[graceMs, timeLimitMs, log.partBytes, log.parts].map(inWhole),
    cwd,
    ...listed(command),
    ...listed(secrets),
    String(ranks.length),
    ...ranks.flatMap(({ rank, env }) => [
      String(rank),
      ...listed(Object.entries(env).map(([name, value]) => `${name}=${value}`)),
    ]),
    "end",
  ];
  const isPlain = words.every((word) => !word.includes("\0")) && groupsOf(container).every(isBare);
  return batch === undefined && isPlain ? `${words.join("\0")}\0` : undefined;
}

const inWhole = (figure: number): string => String(Math.ceil(figure));

const listed = (words: readonly string[]): readonly string[] => [String(words.length), ...words];

/** JSON writes such a path as it is; the native supervisor finds it in `container.json` by its key. */
const isBare = (path: string): boolean => JSON.stringify(path) === `"${path}"`;
