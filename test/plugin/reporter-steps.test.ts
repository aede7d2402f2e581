/** @file The reporter without the plugin: rank 0 writes a line of step times for every ten steps, the other ranks none, and without Orbweaver nobody. */

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { stepIn } from "../../agent/folder/steps-file.ts";

const hasPython = spawnSync("python3", ["--version"]).status === 0;
const PROGRAM = `
import time, orbweaver_reporter
reporter = orbweaver_reporter.Reporter()
for _ in range(101):
    time.sleep(0.002)
    reporter.step()
`;

/** What the program wrote; undefined where it wrote nothing. */
function written(env: Readonly<Record<string, string>>): string | undefined {
  const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-steps-"));
  const file = path.join(folder, "steps.txt");
  try {
    const { status, stderr } = spawnSync("python3", ["-c", PROGRAM], {
      env: {
        PATH: process.env["PATH"],
        PYTHONPATH: path.join(import.meta.dirname, "../../plugin"),
        PYTHONDONTWRITEBYTECODE: "1",
        ...Object.fromEntries(
          Object.entries(env).map(([name, value]) => [name, value.replace("FILE", file)]),
        ),
      },
      encoding: "utf8",
    });
    expect([status, stderr]).toEqual([0, ""]);
    return existsSync(file) ? readFileSync(file, "utf8") : undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describe.skipIf(!hasPython)("the reporter (needs python3)", () => {
  it("writes medians that the agent reads", () => {
    const text = written({ ORBWEAVER_STEPS_FILE: "FILE", RANK: "0" }) ?? "";
    expect(text.trimEnd().split("\n")).toHaveLength(10);
    expect(stepIn(text)).toBeGreaterThanOrEqual(2);
  });

  it.each([
    ["another rank", { ORBWEAVER_STEPS_FILE: "FILE", RANK: "1" }],
    ["a program without Orbweaver", { RANK: "0" }],
    ["a file that cannot be written", { ORBWEAVER_STEPS_FILE: "/proc/no/such/file", RANK: "0" }],
  ])("writes nothing for %s", (_name, env) => {
    expect(written(env)).toBeUndefined();
  });
});
