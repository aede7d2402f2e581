/** @file `access:` of a fleet file: whose file counts, also when another takes its name while it is read. */

import { chmodSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { liveAccess, type LiveAccess } from "../../api/live-access.ts";
import type { Access } from "../../domain/fleet/access-schema.ts";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "access-"));
});
afterEach(() => {
  rmSync(dir, { recursive: true });
});

const file = (): string => join(dir, "fleet.yaml");
const write = (path: string, operator: string, mode: number): void => {
  writeFileSync(path, operator);
  chmodSync(path, mode);
};
const accessOf = (operator: string): Access => ({ grants: [{ to: [operator], role: "operator" }] });
/** The text of the file is an operator's name. `meanwhile` is done after it was read. */
const follow = (meanwhile: () => void = () => undefined): LiveAccess =>
  liveAccess({
    file: file(),
    readAccess: (text) => {
      meanwhile();
      return accessOf(text);
    },
    say: () => undefined,
  });

it("counts what its owner has written, and from the next look on what was written then", () => {
  write(file(), "ada", 0o600);
  const live = follow();
  expect(live.access()).toEqual(accessOf("ada"));
  write(file(), "bob-and-more", 0o600);
  expect(live.isChanged()).toBe(true);
  expect(live.access()).toEqual(accessOf("bob-and-more"));
});

it("a file that others may write counts neither at the start nor later", () => {
  write(file(), "mallory", 0o620);
  expect(() => follow()).toThrow("nobody else may write it");
  write(file(), "ada", 0o600);
  const live = follow();
  write(join(dir, "other"), "mallory", 0o606);
  renameSync(join(dir, "other"), file());
  expect(live.isChanged()).toBe(false);
  expect(live.access()).toEqual(accessOf("ada"));
});

it("a file that others may write does not count although one of the owner's takes its name after it was read", () => {
  write(file(), "mallory", 0o666);
  write(join(dir, "own"), "ada", 0o600);
  expect(() => follow(() => renameSync(join(dir, "own"), file()))).toThrow(
    "nobody else may write it",
  );
});

it("a file that is not there is said to be missing", () => {
  expect(() => follow()).toThrow("the fleet file cannot be read");
});
