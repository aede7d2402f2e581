/**
 * @file Level 2, the frontend is open: another user of the machine reads nothing of a fleet's files, and its codec server does not answer.
 *
 * Runs as root, which alone can start processes of other users; without root it has only the modes to look at.
 */

import { chmodSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { mkdtemp, readdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newKeyLine } from "../../workers/codec/key-ring.ts";
import { asUser, isRoot, NOBODY, statusAs } from "../support/as-user.ts";
import { cliOf } from "../support/own-cli.ts";
import { removeFolder } from "../support/remove-folder.ts";
import { ROOT } from "../support/world.ts";

const FLEET = "private";
const SECRET = "s3cret-w0rd";
let dir = "";
let checkpoints = "";
const stateDir = (): string => join(dir, "state", FLEET);

const cli = cliOf(FLEET, () => join(dir, "state"));

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "orbweaver-private-"));
  // The world may enter; what a former release left open lies there already.
  chmodSync(dir, 0o755);
  mkdirSync(join(stateDir(), "logs"), { recursive: true, mode: 0o755 });
  writeFileSync(join(stateDir(), "logs", "fleet.log"), `${SECRET}\n`, { mode: 0o644 });
  checkpoints = join(dir, "checkpoints");
  mkdirSync(checkpoints, { mode: 0o755 });
  const keyFile = join(dir, "keys.txt");
  writeFileSync(keyFile, newKeyLine(), { mode: 0o600 });
  await cli("up", "--always-on", "--encryption-keys", keyFile);
  writeFileSync(
    join(dir, "job.yaml"),
    `name: secretive
gang: { gpus: 1 }
run:
  command: [sh, -c, 'echo $TOKEN; echo $TOKEN > $ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/last']
  env: { TOKEN: ${SECRET} }
  checkpoint: { signal: USR1, dir: ${checkpoints} }
`,
  );
  await cli("submit", "--wait", join(dir, "job.yaml"));
});
afterAll(async () => {
  await cli("down", "--stop-jobs").catch(() => undefined);
  removeFolder(dir);
});

it("database, logs, state and checkpoints have no right of others on the way to them", async () => {
  const isClosed = async (path: string): Promise<boolean> =>
    ((await stat(path)).mode & 0o077) === 0;
  for (const name of ["", "temporal.db", "temporal.db-wal", "up.json", "logs", "logs/fleet.log"]) {
    expect(`${name} ${String(await isClosed(join(stateDir(), name)))}`).toBe(`${name} true`);
  }
  const tokens = await readdir(checkpoints);
  expect(tokens).toHaveLength(1);
  for (const token of tokens) expect(await isClosed(join(checkpoints, token))).toBe(true);
});

it.runIf(isRoot)(
  "level 2: another user finds no word of the job in any file that it can read",
  async () => {
    const found = await asUser(NOBODY, ["grep", "-rlas", SECRET, join(dir, "state"), checkpoints]);
    expect(found.stdout).toBe("");
    const listed = await asUser(NOBODY, ["find", join(dir, "state"), "-type", "f"]);
    expect(listed.stdout).toBe("");
    // The owner does find it, so the search works.
    const own = await asUser(0, ["grep", "-rlas", SECRET, join(dir, "state"), checkpoints]);
    expect(own.stdout.split("\n").length).toBeGreaterThan(2);
  },
);

it.runIf(isRoot)("level 2: the codec server decodes for its own user alone", async () => {
  const state = JSON.parse((await asUser(0, ["cat", join(stateDir(), "up.json")])).stdout) as {
    readonly server: { readonly codecUrl: string };
  };
  const url = `${state.server.codecUrl}/decode`;
  const body = JSON.stringify({ payloads: [] });
  expect(await statusAs(NOBODY, url, { method: "POST", body })).toBe(401);
  expect((await fetch(url, { method: "POST", body })).status).toBe(200);
});

it.runIf(isRoot)(
  "level 2: another user gets neither the console's streams and metrics nor a backup",
  async () => {
    const state = JSON.parse((await asUser(0, ["cat", join(stateDir(), "up.json")])).stdout) as {
      readonly consoleUrl: string;
    };
    for (const path of ["events", "job-events", "snapshot", "state", "past", "shares", "host"])
      expect(await statusAs(NOBODY, new URL(`/api/${path}`, state.consoleUrl).href)).toBe(401);
    expect(await statusAs(NOBODY, new URL("/metrics", state.consoleUrl).href)).toBe(401);
    const folder = join(dir, "loot");
    mkdirSync(folder);
    chmodSync(folder, 0o777);
    const words = [
      process.execPath,
      join(ROOT, "dist/cli/main.js"),
      "backup",
      join(folder, "copy"),
    ];
    const env = { ORBWEAVER_STATE_DIR: join(dir, "state"), ORBWEAVER_FLEET: FLEET };
    const { code, stderr } = await asUser(NOBODY, words, env);
    expect(code).not.toBe(0);
    expect(stderr).not.toContain("this is a bug");
    expect(readdirSync(folder)).toEqual([]);
  },
);
