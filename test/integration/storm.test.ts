/** @file The short form of `orbweaver bench storm`: every kind of fault once, and nothing is wrong afterwards. */

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { FAULT_KINDS, type FaultKind } from "../../bench/storm/schedule.ts";
import { runStorm } from "../../bench/storm/storm.ts";

/** Storms that found a bug once: kept under the name of what they found. */
interface Seed {
  readonly found: string;
  readonly seed: number;
  readonly faults: number;
  readonly kinds?: readonly FaultKind[];
}

const FOLDER = path.join(import.meta.dirname, "../storm-seeds");
const seeds: readonly (readonly [string, Seed])[] = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".json"))
  .sort()
  .map((file) => [file, JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")) as Seed]);

const LIMIT_MS = 1_200_000;

describe("a storm", () => {
  it.each(seeds)(
    "%s leaves nothing wrong",
    async (_, { seed, faults, kinds }) => {
      const outcome = await runStorm({
        seed,
        faults,
        meanGapMs: 800,
        replayedJobs: 25,
        ...(kinds !== undefined && { kinds }),
        say: (line) => process.stderr.write(`${line}\n`),
      });
      // Books are absent where floods have made a run that the server cannot hand out.
      const { findings, books = [], replays } = outcome;
      const wrong = Object.entries({ ...findings, books, replays: replays.failed }).flatMap(
        ([what, lines]: [string, readonly string[]]) => lines.map((line) => `${what}: ${line}`),
      );
      // The first line of a failure is all that a summary shows.
      expect(wrong, wrong.join("; ")).toEqual([]);
      expect(outcome.folder).toBeUndefined();
      expect(outcome.replays.count).toBeGreaterThan(0);
      expect(outcome.faults).toBe(faults);
      // How soon is a bar of the bench; beside other tests only that they grant again counts.
      expect(outcome.recoveries.filter(({ ms }) => ms === Infinity)).toEqual([]);
    },
    LIMIT_MS,
  );

  it("has met every kind of fault at least once", () => {
    const most = Math.max(...seeds.map(([, { faults, kinds }]) => (kinds ? 0 : faults)));
    expect(most).toBeGreaterThanOrEqual(FAULT_KINDS.length);
  });
});
