/** @file Of several job files that are wrong, all problems are said at once and nothing is submitted. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { run } from "./run.ts";

const cwd = mkdtempSync(join(tmpdir(), "orbweaver-submit-"));
writeFileSync(join(cwd, "good.yaml"), "name: a\ngang: 1\nrun: { command: [x] }\n");
writeFileSync(join(cwd, "bad.yaml"), "name: a\ngang: 1\nrn: { command: [x] }\n");
writeFileSync(join(cwd, "worse.yaml"), "name: [\n");

const client = {
  submit: () => {
    throw new Error("submitted");
  },
};

it("names the problems of every file", async () => {
  const words = ["submit", "bad.yaml", "good.yaml", "none.yaml", "worse.yaml", "--json"];
  const { code, stdout, stderr } = await run(words, { cwd, client });
  expect(code).toBe(2);
  expect(stderr).toMatch(/^error BAD_INPUT: bad\.yaml:1:1 run: missing.*\n {2}bad\.yaml:3:1 rn: /);
  expect(stderr).toMatch(/^ {2}none\.yaml does not exist/m);
  expect(stderr).toMatch(/^ {2}worse\.yaml:/m);
  expect(stderr).not.toContain("good.yaml");
  expect(JSON.parse(stdout)).toMatchObject({ error: { code: "BAD_INPUT" } });
});

it("names the file also where flags are merged into it", async () => {
  const words = ["submit", "bad.yaml", "good.yaml", "none.yaml", "--gpus", "1"];
  const { code, stderr } = await run(words, { cwd, client });
  expect(code).toBe(2);
  expect(stderr).toMatch(/bad\.yaml with flags: /);
  expect(stderr).toMatch(/none\.yaml does not exist/);
});
