/** @file The beginning of a file is read as far as it goes, and never further than is allowed. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it } from "vitest";
import { headOf } from "../../../agent/system/head-of.ts";
import { nodeProcesses } from "../../../agent/system/node-processes.ts";

const MIB = 1024 * 1024;

it.each([0, 1, 16 * 1024, 16 * 1024 + 1, MIB + 7])("a file of %i bytes is whole", (bytes) => {
  const file = path.join(mkdtempSync(path.join(tmpdir(), "orbweaver-head-")), "file");
  const whole = Buffer.from(Array.from({ length: bytes }, (_, at) => at % 251));
  writeFileSync(file, whole);
  expect(headOf(file, 8 * MIB).equals(whole)).toBe(true);
  expect(headOf(file, 1_000).equals(whole.subarray(0, 1_000))).toBe(true);
});

it.runIf(process.platform === "linux")("a file without end is cut", () => {
  expect(headOf("/dev/zero", 3 * MIB + 1)).toHaveLength(3 * MIB + 1);
});

it.runIf(process.platform === "linux")("a mark behind a large environment is found", async () => {
  const large = Array.from({ length: 9 }, (_, at) => [`LARGE_${at}`, "x".repeat(100_000)]);
  const env = { ...Object.fromEntries(large), PATH: process.env["PATH"], THE_MARK: "behind" };
  const child = spawn("sleep", ["60"], { env });
  await once(child, "spawn");
  const { pid = 0 } = child;
  const isFound = (): boolean =>
    nodeProcesses.single?.environment(pid)?.includes("THE_MARK=behind") === true;
  await expect.poll(isFound).toBe(true);
  child.kill("SIGKILL");
});
