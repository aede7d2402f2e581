/** @file A short run of `bench handlers`: a fleet's task with many signals beside that of an empty handler. */
import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const MAIN = path.join(import.meta.dirname, "../../dist/cli/main.js");

// In a process of its own: the sandbox of Temporal's worker hooks into every promise of its process.
it("a fleet's task with 4,000 signals costs at most twice as much as an empty handler's", async () => {
  const flags = ["bench", "handlers", "--signals", "4000", "--rounds", "1", "--json"];
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...flags]);
  const { bars } = JSON.parse(stdout) as {
    readonly bars: readonly { readonly unit: string; readonly got: number }[];
  };
  const ratios = bars.filter(({ unit }) => unit === "×").map(({ got }) => got);
  expect(ratios).toHaveLength(2);
  expect(Math.max(...ratios)).toBeLessThanOrEqual(2);
});
