/** @file The launcher that the worker controller runs: quoting, what it passes on, and who may read it. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { writeLauncher } from "../../../workers/on-demand/start.ts";

let stateDir = "";
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), "orbweaver it's, "));
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

const write = (env: Record<string, string>): string =>
  writeLauncher("jobs", { stateDir, cwd: stateDir }, env);

it("is valid shell whatever the folder is called, for its user alone", () => {
  const file = write({});
  execFileSync("sh", ["-n", file]);
  expect(statSync(file).mode & 0o777).toBe(0o700);
});

it("passes on what is Orbweaver's, as it is, and nothing else", () => {
  const value = `a 'quoted' "value" with $HOME, \`ticks\` and\na line`;
  const lines = readFileSync(
    write({ ORBWEAVER_CODEC: value, AWS_SECRET: "s", TEMPORAL_API_KEY: "k" }),
    "utf8",
  );
  expect(lines).not.toMatch(/AWS_SECRET|TEMPORAL_API_KEY/);
  const exports = lines.slice(0, lines.indexOf("\ncd "));
  const said = execFileSync("sh", ["-c", `${exports}\nprintf %s "$ORBWEAVER_CODEC"`], {
    encoding: "utf8",
  });
  expect(said).toBe(value);
});
