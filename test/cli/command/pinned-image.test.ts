/** @file Images of jobs are pinned to what their tags name on the submitter's machine, with stand-ins for podman and docker. */

import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { CommandContext } from "../../../cli/command/command-context.ts";
import { pinnedBy, withPinnedImage } from "../../../cli/command/pinned-image.ts";
import { readJob } from "../../../client/index.ts";

const A = `sha256:${"a".repeat(64)}`;
let dir = "";
let said: string[] = [];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-pin-"));
  said = [];
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function has(tool: string, line: string): void {
  writeFileSync(join(dir, tool), `#!/bin/sh\n${line}\n`);
  chmodSync(join(dir, tool), 0o755);
}
const textOf = (image: string): string =>
  `name: toy\ngang: 1\nrun: { command: [train], container: { image: "${image}" } }\n`;

async function imageOf(image: string): Promise<string | undefined> {
  const context = { io: { env: { PATH: dir } }, say: (line: string) => said.push(line) };
  // Nothing else of the context is used.
  const job = await withPinnedImage(context as unknown as CommandContext, { job: textOf(image) });
  return readJob(job).spec.run?.container?.image;
}

it("a tag that podman or docker knows becomes its digest, which is said", async () => {
  has("podman", "exit 125");
  has("docker", `[ "$5" = nvcr.io/ml/train:2 ] && echo '["nvcr.io/ml/train@${A}"]'`);
  expect(await imageOf("nvcr.io/ml/train:2")).toBe(`nvcr.io/ml/train@${A}`);
  expect(said).toEqual([expect.stringMatching(/train:2 is pinned to .* as docker has it here/)]);
});

it.each([
  ["an image with a digest", `nvcr.io/ml/train@${A}`],
  ["a path of the hosts", "/images/train"],
  ["an image that each machine makes itself", "localhost/train:2"],
])("%s stays as it is, and nobody is asked", async (_what, image) => {
  has("podman", `echo '["${image.split(":")[0] ?? ""}@${A}"]'`);
  expect(await imageOf(image)).toBe(image);
  expect(said).toEqual([]);
});

it.each([
  ["no such tool", undefined],
  ["no such image", "exit 1"],
  ["an image that was never fetched", "echo null"],
  ["words that are no digests", "echo oops"],
])("where there is %s, the tag stays", async (_what, line) => {
  if (line !== undefined) has("podman", line);
  expect(await imageOf("debian:12")).toBe("debian:12");
});

it.each([
  ["debian:12", [`docker.io/library/debian@${A}`], `debian@${A}`],
  ["debian", [`docker.io/library/debian@${A}`], `debian@${A}`],
  ["registry:5000/train", [`registry:5000/train@${A}`], `registry:5000/train@${A}`],
  ["nvcr.io/train:2", [`example.org/other@${A}`, `nvcr.io/train@${A}`], `nvcr.io/train@${A}`],
  ["nvcr.io/train:2", [`example.org/other@${A}`], undefined],
  ["nvcr.io/train:2", ["nvcr.io/train@sha256:short"], undefined],
])("%s with %j is %s", (name, digests, want) => {
  expect(pinnedBy(name, digests)).toBe(want);
});
