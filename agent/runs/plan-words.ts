/**
 * @file Which supervisor starts a launch, and the launch's plan in the words that the native one reads (`agent/native/plan.c`).
 *
 * The native supervisor costs a fraction of the shim in Node and keeps the same promises, for batches of array tasks, too. It parses no JSON: each word
 * ends in a NUL byte, and a list is its length and then its words.
 */

import { groupsOf, type Container } from "../containment/container.ts";
import type { BatchPlan, LaunchPlan, RankPlan } from "../folder/launch-files.ts";

/** Of these words and files. `supervisor --protocol` prints it; another one is not used. */
export const NATIVE_PROTOCOL = "orbweaver-supervisor-4";
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
    ...rankWords(ranks),
    ...(batch === undefined ? ["0"] : batchWords(batch)),
    "end",
  ];
  const isPlain = words.every((word) => !word.includes("\0")) && groupsOf(container).every(isBare);
  return isPlain ? `${words.join("\0")}\0` : undefined;
}

const rankWords = (ranks: readonly RankPlan[]): readonly string[] => [
  String(ranks.length),
  ...ranks.flatMap(({ rank, env }) => [
    String(rank),
    ...listed(Object.entries(env).map(([name, value]) => `${name}=${value}`)),
  ]),
];

const batchWords = ({
  slots,
  count,
  isPortAgreed,
  leaseDir,
  tasks,
}: BatchPlan): readonly string[] => [
  String(slots.length),
  ...slots.flatMap(rankWords),
  String(count),
  isPortAgreed ? "1" : "0",
  leaseDir,
  String(tasks.length),
  ...tasks.flatMap(({ task, checkpointDir, checkpoint = "" }) => [
    String(task),
    checkpointDir,
    checkpoint,
  ]),
];

const inWhole = (figure: number): string => String(Math.ceil(figure));

const listed = (words: readonly string[]): readonly string[] => [String(words.length), ...words];

/** JSON writes such a path as it is; the native supervisor finds it in `container.json` by its key. */
const isBare = (path: string): boolean => JSON.stringify(path) === `"${path}"`;
