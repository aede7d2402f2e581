/** @file Which program a run's command names: `orbweaver` is the agent's own, everything else is the host's. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { nodeSystem } from "../../../agent/system/node-system.ts";
import { ownCommand } from "../../../agent/system/own-command.ts";
import { readServing, servingFile } from "../../../agent/folder/serving-file.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-own-"));
afterAll(() => rmSync(folder, { recursive: true }));
mkdirSync(join(folder, "cli"));
mkdirSync(join(folder, "measured"));
const cli = join(folder, "cli", "main.js");
writeFileSync(cli, "");
const shim = join(folder, "workers", "shim.cjs");

it.each([
  [
    ["orbweaver", "serve"],
    [process.execPath, cli, "serve"],
  ],
  [
    ["python", "orbweaver"],
    ["python", "orbweaver"],
  ],
  [
    ["./orbweaver", "serve"],
    ["./orbweaver", "serve"],
  ],
])("%j", (command, want) => {
  expect(ownCommand(command, shim, nodeSystem.files)).toEqual(want);
});

it("is the host's where the installation has no command line", () => {
  expect(
    ownCommand(["orbweaver"], join(folder, "gone", "a", "shim.cjs"), nodeSystem.files),
  ).toEqual(["orbweaver"]);
});

it.each([
  [JSON.stringify({ url: "http://h:1", line: "whole" }), { url: "http://h:1", line: "whole" }],
  ['{"url": 5, "line": ""}', undefined],
  ["{", undefined],
])("what a service writes is read, and nothing else: %s", (text, want) => {
  writeFileSync(servingFile(folder), text);
  expect(readServing(nodeSystem.files, folder)).toEqual(want);
});
