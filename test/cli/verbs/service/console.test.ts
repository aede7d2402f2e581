/** @file `orbweaver console`: what it refuses before it listens, and what its help says that it does. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it } from "vitest";
import { run } from "../../run.ts";

const OUT = ["--host", "0.0.0.0", "--token-file", "t.txt"];

it.each<[string, readonly string[], RegExp]>([
  ["without a token beyond this machine", ["--host", "0.0.0.0"], /--token-file/],
  ["with a token in clear beyond this machine", OUT, /in clear.*--cert FILE.*--plain/],
  ["with a certificate without its key", [...OUT, "--cert", "c.pem"], /--key/],
  ["with a certificate that is not there", [...OUT, "--cert", "c", "--key", "k"], /cannot be read/],
])("is refused %s", async (_name, words, want) => {
  const cwd = mkdtempSync(path.join(tmpdir(), "orbweaver-console-"));
  writeFileSync(path.join(cwd, "t.txt"), "token");
  const { code, stderr } = await run(["console", "--port", "0", ...words], {
    cwd,
    env: { ORBWEAVER_STATE_DIR: cwd },
    interrupted: AbortSignal.abort(),
  });
  expect(code).toBe(2);
  expect(stderr).toMatch(want);
});

it("says in its help that it may suspend idle jobs", async () => {
  const { stdout } = await run(["console", "--help"]);
  expect(stdout.replaceAll(/\s+/g, " ")).toContain("it suspends that tenant's idle jobs");
});
