/** @file Of several job files that are wrong, all problems are said at once and nothing is submitted. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { OrbweaverClient } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { jobId } from "../../domain/values/ids.ts";
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

const STEPS = [
  "# nightly",
  "---",
  "name: prepare",
  "gang: 1",
  "run: { command: [x] }",
  "--- # the second",
  "name: train",
  "gang: 1",
  "after: [{ job: prepare }, { job: other-1, on: end }]",
  "run:",
  "  command: |",
  "    cat <<END",
  "    ---",
  "    END",
  "---",
  "name: publish",
  "gang: 1",
  "after: [{ job: train }]",
  "run: { command: [x] }",
].join("\n");

/** Keeps what is submitted, and knows these jobs. */
function server(known: readonly string[]) {
  const submitted: unknown[] = [];
  return {
    submitted,
    submit: (job: unknown) => {
      submitted.push(job);
      return Promise.resolve({ jobId: jobId(`id-${submitted.length}`), isNew: true });
    },
    checkStarts: () => Promise.resolve(),
    job: (id: string) => ({
      ending: () =>
        known.includes(id)
          ? Promise.resolve({ isCancelAsked: false })
          : Promise.reject(new OrbweaverError("NOT_FOUND", `there is no job ${id}`)),
    }),
  };
}

it("a file of several jobs is submitted in order, and names become the ids of earlier jobs", async () => {
  const there = server(["other-1"]);
  const words = ["submit", "-", "--group", "nightly-12"];
  const client = { ...there, job: there.job as unknown as OrbweaverClient["job"] };
  const { code, stdout, stderr } = await run(words, { cwd, client, input: STEPS });
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "id-1\nid-2\nid-3\n", stderr: "" });
  expect(there.submitted).toMatchObject([
    { name: "prepare", group: "nightly-12" },
    { name: "train", after: [{ job: "id-1" }, { job: "other-1", on: "end" }] },
    { name: "publish", after: [{ job: "id-2" }] },
  ]);
});

it.each<[string, string, RegExp]>([
  [
    "a wrong document, in its own line",
    STEPS.replace("name: publish", "nam: publish"),
    /:16:1 nam/,
  ],
  [
    "two wrong documents, both said",
    STEPS.replace("name: publish", "nam: publish").replace("name: prepare", "nme: prepare"),
    /:3:1 nme[^]*:16:1 nam/,
  ],
  ["a job of the server that there is not", STEPS.replace("other-1", "other-2"), /no job other-2/],
  ["a job that comes later", STEPS.replace("prepare }", "publish }"), /Put it first/],
  ["one of two names", STEPS.replaceAll("train", "prepare"), /is the name of 2 jobs before it/],
])("of a file of several jobs nothing is submitted for %s", async (_what, input, wantError) => {
  const there = server(["other-1"]);
  const client = { ...there, job: there.job as unknown as OrbweaverClient["job"] };
  const { code, stderr } = await run(["submit", "-"], { cwd, client, input });
  expect(code).toBeGreaterThan(0);
  expect(stderr).toMatch(wantError);
  expect(there.submitted).toEqual([]);
});

it("one key is not for several jobs", async () => {
  const { code, stderr } = await run(["submit", "-", "--key", "k"], { cwd, client, input: STEPS });
  expect([code, stderr]).toEqual([2, expect.stringContaining("one job only")]);
});

it("takes a file also by its flag", async () => {
  const { submit, checkStarts } = server([]);
  const words = ["submit", "--file", "good.yaml", "--file", "good.yaml", "good.yaml"];
  const { code, stdout } = await run(words, { cwd, client: { submit, checkStarts } });
  expect([code, stdout]).toEqual([0, "id-1\nid-2\nid-3\n"]);
});
