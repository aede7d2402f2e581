/**
 * @file How much of the machines and of the ledger the worlds go through: V8's block coverage, of each file of these rooms, also of those that no world
 * loads.
 *
 * A branch is a range that V8 counts by itself: a function, or a block that is not met as often as what is around it;
 * one that was never called counts once, whatever is in it. Coverage slows a play down.
 */

import { readdirSync } from "node:fs";
import { Session, type Profiler } from "node:inspector/promises";
import { extname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export interface BranchCount {
  readonly branches: number;
  readonly met: number;
}

/** By file, with the path from the root. */
export type BranchCounts = ReadonlyMap<string, BranchCount>;

const ROOMS = ["machines", "scheduling/ledger"] as const;
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** What the work goes through. */
export async function branchesMetBy(work: () => Promise<void>): Promise<BranchCounts> {
  const files = sources();
  for (const file of files) await import(pathToFileURL(join(ROOT, file)).href);
  const session = new Session();
  session.connect();
  try {
    await session.post("Profiler.enable");
    await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
    await work();
    const { result } = await session.post("Profiler.takePreciseCoverage");
    const byUrl = new Map(result.map(({ url, functions }) => [url, functions]));
    return new Map(
      files.map((file) => [file, countOf(byUrl.get(pathToFileURL(join(ROOT, file)).href) ?? [])]),
    );
  } finally {
    session.disconnect();
  }
}

/** As they are run: compiled ones from the build's folder. */
const sources = (): readonly string[] =>
  ROOMS.flatMap((room) =>
    readdirSync(join(ROOT, room), { recursive: true, encoding: "utf8" })
      .filter((name) => extname(name) === extname(fileURLToPath(import.meta.url)))
      .map((name) => `${room}/${name}`),
  ).sort();

/** The first function of a file is the file itself, which was gone through when it was loaded. */
export function countOf(functions: readonly Profiler.FunctionCoverage[]): BranchCount {
  const ranges = functions
    .filter(({ functionName, ranges: [whole] }) => functionName !== "" || whole?.startOffset !== 0)
    .flatMap((each) => each.ranges);
  return { branches: ranges.length, met: ranges.filter(({ count }) => count > 0).length };
}

export const sumOf = (counts: Iterable<BranchCount>): BranchCount =>
  [...counts].reduce(
    (sum, { branches, met }) => ({ branches: sum.branches + branches, met: sum.met + met }),
    { branches: 0, met: 0 },
  );
