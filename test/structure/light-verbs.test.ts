/** @file What the command line loads before it answers: counted on the graph of imports, because times depend on the machine. */

import { describe, expect, it } from "vitest";
import { bundleOf, LIGHT_VERBS } from "../../cli/light-verbs.ts";
import { VERB_GROUPS } from "../../cli/verb-list.ts";
import { packagesOf, reach, sources, type ImportOf } from "./sources.ts";

/** Workers, solvers, models, shells: what no question to the server needs. */
const HEAVY = [
  "@temporalio/worker",
  "@temporalio/activity",
  "onnxruntime-node",
  "highs",
  "javascript-lp-solver",
  "pino",
  "@bomb.sh/tab",
];

/** Outside of the bundle; a run with its flag takes no bundle. */
const WHAT_IF = "cli/command/what-if.ts";

describe("the command line", () => {
  it("prints its version without any package", () => {
    expect(packagesOf(["cli/main.ts"])).toEqual([]);
  });

  it("reads its words with commander, colours and yaml alone", () => {
    expect(packagesOf(["cli/program.ts", "cli/verb-list.ts"])).toEqual([
      "commander",
      "picocolors",
      "yaml",
    ]);
  });

  it.each([...LIGHT_VERBS])("%s loads neither workers nor solvers nor models", (_word, file) => {
    const loaded = packagesOf([
      "cli/program.ts",
      "cli/command/session.ts",
      "cli/terminal/error-line.ts",
      `cli/verbs/${file}.ts`,
    ]);
    expect(loaded).toContain("@temporalio/client");
    expect(loaded.filter((name) => HEAVY.includes(name))).toEqual([]);
    const roots = sources.filter((source) => source.file === `cli/verbs/${file}.ts`);
    const isBundled = (each: ImportOf): boolean => !each.isTypeOnly && each.file !== WHAT_IF;
    const files = [...reach(roots, isBundled)];
    expect(files.filter((each) => /^(models|solvers)\//.test(each))).toEqual([]);
  });

  it("bundles verbs under all of their names", () => {
    const all = VERB_GROUPS.flatMap(({ verbs }) => verbs.map(({ names }) => names));
    const light = all.filter((names) => names.some((name) => LIGHT_VERBS.has(name)));
    expect(light.flat().sort()).toEqual([...LIGHT_VERBS.keys()].sort());
  });

  it("takes the small bundle for light verbs, and the whole one for a replayed decision, a what-if or a codec of the user", () => {
    expect(bundleOf(["list", "--json"], {})).toBe("light.cjs");
    expect(bundleOf(["status", "job-1"], {})).toBe("light.cjs");
    expect(bundleOf(["explain", "job-1", "--decision"], {})).toBe("whole.cjs");
    expect(bundleOf(["submit", "--json", "job.yaml"], {})).toBe("light.cjs");
    expect(bundleOf(["submit", "--what-if", "job.yaml"], {})).toBe("whole.cjs");
    expect(bundleOf(["list", "--codec=./own.mjs"], {})).toBe("whole.cjs");
    expect(bundleOf(["list"], { ORBWEAVER_CODEC: "./own.mjs" })).toBe("whole.cjs");
    expect(bundleOf(["worker", "--role", "fleet"], {})).toBe("whole.cjs");
    expect(bundleOf(["console", "--port", "0"], {})).toBe("light.cjs");
    expect(bundleOf([], {})).toBe("whole.cjs");
    expect(bundleOf(["bench", "pick"], {})).toBeUndefined();
  });

  it("takes the bundle of its own for a model that is served, whatever codec is set, and the whole one for replicas", () => {
    expect(bundleOf(["serve"], {})).toBe("serve.cjs");
    expect(bundleOf(["serve", "--gpus", "2"], { ORBWEAVER_CODEC: "./own.mjs" })).toBe("serve.cjs");
    expect(bundleOf(["serve", "replicas", "service.yaml"], {})).toBe("whole.cjs");
    expect(bundleOf(["serve", "--json", "replicas", "service.yaml"], {})).toBe("whole.cjs");
  });
});
