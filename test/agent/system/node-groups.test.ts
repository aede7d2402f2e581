/** @file What is written to a group's files; the files are plain ones, as no test may count on a controller. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { nodeGroups } from "../../../agent/system/node-groups.ts";

it.each([
  ["of a gang is killed whole", true, "1"],
  ["of a batch loses one process, and its other tasks go on", false, "0"],
])("at its limit of memory a launch %s (version 2)", (_, endsWhole, want) => {
  const group = mkdtempSync(join(tmpdir(), "orbweaver-group-"));
  onTestFinished(() => {
    rmSync(group, { recursive: true });
  });
  for (const file of ["memory.max", "memory.swap.max", "memory.oom.group"])
    writeFileSync(join(group, file), "");
  nodeGroups.limitMemory(group, { bytes: 4_096, endsWhole });
  const read = (file: string): string => readFileSync(join(group, file), "utf8");
  expect([read("memory.max"), read("memory.swap.max")]).toEqual(["4096", "0"]);
  expect(read("memory.oom.group")).toBe(want);
});
