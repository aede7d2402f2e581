/** @file A backup that somebody has forged: nothing of it is put in place, and nothing is changed. */

import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { takeBackup } from "../../cli/up/backup.ts";
import { readManifest, restoreBackup } from "../../cli/up/restore.ts";
import { isRoot, NOBODY } from "../support/as-user.ts";
import { SMALL_FLEET } from "../support/world.ts";

let dir = "";
let folder = "";
let stateDir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-restore-"));
  folder = join(dir, "backup");
  stateDir = join(dir, "state");
  mkdirSync(folder, { mode: 0o700 });
});
afterEach(() => rmSync(dir, { recursive: true }));

const STATE = { fleet: "kept", fleetFile: "/nowhere/fleet.yaml", workers: [] };

/** A backup of these files, each with its true hash. */
function write(files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true, mode: 0o700 });
    writeFileSync(join(folder, path), text, { mode: 0o600 });
  }
  const listed = Object.entries(files).map(([path, text]) => ({
    ...{ path, bytes: text.length },
    sha256: createHash("sha256").update(text).digest("hex"),
  }));
  const manifest = { version: 1, fleet: "kept", takenAtMs: 1, fleetFile: "fleet.yaml" };
  writeFileSync(join(folder, "backup.json"), JSON.stringify({ ...manifest, files: listed }), {
    mode: 0o600,
  });
}

const restore = async (): Promise<unknown> => {
  const manifest = await readManifest(folder, undefined);
  return await restoreBackup({ folder, manifest, stateDir, isForced: false, nowMs: 1 });
};
const HONEST = { "up.json": JSON.stringify(STATE), "store/fleet/a": "rows" };

it("one that nobody else can write is restored", async () => {
  write(HONEST);
  await restore();
  expect(existsSync(join(stateDir, "store/fleet/a"))).toBe(true);
});

it("one that `backup` has written is restored, also of a fleet file that its group may write", async () => {
  const fleetFile = join(dir, "fleet.yaml");
  writeFileSync(fleetFile, SMALL_FLEET);
  chmodSync(fleetFile, 0o664);
  const kept = join(dir, "kept");
  mkdirSync(join(kept, "store"), { recursive: true });
  writeFileSync(join(kept, "store", "a"), "rows");
  chmodSync(join(kept, "store", "a"), 0o666);
  // Its database is another server's.
  const state = { ...STATE, fleetFile, configuredAddress: "temporal.example:7233" };
  writeFileSync(join(kept, "up.json"), JSON.stringify(state));
  rmSync(folder, { recursive: true });
  await takeBackup({ fleet: "kept", stateDir: kept, folder, nowMs: 1 });
  await restore();
  expect(existsSync(join(stateDir, "store/a"))).toBe(true);
});

describe("one is refused, and nothing is there then,", () => {
  it.each<readonly [what: string, forge: () => void, why: RegExp]>([
    [
      "that has a launch for a host",
      () => write({ ...HONEST, "hosts/alpha/a1/leases/lease-1/order.json": "{}" }),
      /is none that this release writes/,
    ],
    [
      "that has a way out of its folder",
      () => write({ ...HONEST, "store/../../keys/fleet.pem": "key" }),
      /is none that this release writes/,
    ],
    [
      "whose files others may write",
      () => {
        write(HONEST);
        chmodSync(join(folder, "up.json"), 0o662);
      },
      /up\.json is a link, or belongs to another user, or others may write it/,
    ],
    [
      "whose folders others may write",
      () => {
        write(HONEST);
        chmodSync(join(folder, "store"), 0o777);
      },
      /store is a link/,
    ],
    [
      "in which a link stands for a file",
      () => {
        write(HONEST);
        renameSync(join(folder, "store/fleet/a"), join(dir, "a"));
        symlinkSync(join(dir, "a"), join(folder, "store/fleet/a"));
      },
      /store\/fleet\/a is a link/,
    ],
  ])("%s", async (_what, forge, why) => {
    forge();
    await expect(restore()).rejects.toThrow(why);
    expect(existsSync(stateDir)).toBe(false);
  });

  it.runIf(isRoot)("that belongs to another user", async () => {
    write(HONEST);
    chownSync(join(folder, "up.json"), NOBODY, NOBODY);
    await expect(restore()).rejects.toMatchObject({ code: "NOT_ALLOWED" });
    expect(existsSync(stateDir)).toBe(false);
  });
});
