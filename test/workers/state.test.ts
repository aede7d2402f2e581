/** @file What `up` remembers: where, and that it is read back whole or refused. */

import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import {
  fleetStateDir,
  readUpState,
  stateRoot,
  writeUpState,
  type UpState,
} from "../../workers/state.ts";

it.each([
  [{ ORBWEAVER_STATE_DIR: "/s", XDG_STATE_HOME: "/x", HOME: "/h" }, "/s"],
  [{ XDG_STATE_HOME: "/x", HOME: "/h" }, "/x/orbweaver"],
  [{ XDG_STATE_HOME: "relative", HOME: "/h" }, "/h/.local/state/orbweaver"],
  [{ ORBWEAVER_STATE_DIR: "", HOME: "/h" }, "/h/.local/state/orbweaver"],
])("with %j the state is in %s", (env, wantRoot) => {
  expect(stateRoot(env)).toBe(wantRoot);
  expect(fleetStateDir(env, "eu")).toBe(`${wantRoot}/eu`);
});

it.each(["", ".", "..", "a/b", "a b", "-a", "x".repeat(64)])(
  "the fleet name %j is refused",
  (name) => {
    expect(() => fleetStateDir({}, name)).toThrow(expect.objectContaining({ code: "BAD_INPUT" }));
  },
);

const STATE: UpState = {
  fleet: "default",
  fleetFile: "/f.yaml",
  server: {
    bootId: "b",
    pid: 1,
    started: "s",
    address: "a:1",
    namespace: "default",
    databaseFile: "d",
    logFile: "l",
  },
  workers: [{ bootId: "b", pid: 2, started: "s", role: "agent", cluster: "c", logFile: "l" }],
};

it("is read back as it was written, and leaves nothing else behind", async () => {
  const dir = join(mkdtempSync(join(tmpdir(), "orbweaver-state-")), "new");
  expect(await readUpState(dir)).toBeUndefined();
  await writeUpState(dir, STATE);
  expect(await readUpState(dir)).toEqual(STATE);
  expect(readdirSync(dir)).toEqual(["up.json"]);
});

it.each(["", "{", "{}", '{"fleet":"a","fleetFile":"b","workers":[{"pid":-1}]}'])(
  "a file with %j is refused with its name",
  async (text) => {
    const dir = mkdtempSync(join(tmpdir(), "orbweaver-state-"));
    writeFileSync(join(dir, "up.json"), text);
    await expect(readUpState(dir)).rejects.toMatchObject({
      code: "BAD_INPUT",
      message: expect.stringContaining("up.json"),
    });
  },
);
