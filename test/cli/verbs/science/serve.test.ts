/** @file `serve` and its subcommands: an option that both have belongs to the subcommand that it follows. */

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { run } from "../../run.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-serve-verb-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("serve sample --json answers with a document", async () => {
  const { code, stdout } = await run(["serve", "sample", "transformer", "t.onnx", "--json"], {
    cwd: folder,
  });
  expect(code).toBe(0);
  const bytes = statSync(join(folder, "t.onnx")).size;
  expect(JSON.parse(stdout)).toEqual({ file: "t.onnx", bytes });
});
