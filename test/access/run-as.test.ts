/** The exec step of a job's user, on this machine: two processes at a time, with the state folder in `/tmp` and behind a closed folder. */

import { execFile, execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import {
  asUser,
  closedAbove,
  hostUser,
  runAsTrouble,
  MOST_OPEN_FILES,
  withinOwnLimits,
} from "../../access/run-as.ts";
import { MOST_FILES } from "../../agent/system/exec-step.ts";
import { builtNative } from "../agent/fixture.ts";
import { isRoot, NOBODY } from "../support/as-user.ts";

const run = promisify(execFile);
const made: string[] = [];
afterAll(() => {
  for (const dir of made) rmSync(dir, { recursive: true, force: true });
});
const folder = (parent: string): string => {
  const dir = realpathSync(mkdtempSync(join(parent, "orbweaver-as-user-")));
  made.push(dir);
  return dir;
};

it("keeps to the limits of the agent itself, which it could not raise", () => {
  const [most, few] = [
    { processes: 2 ** 40, openFiles: 2 ** 40 },
    { processes: 2, openFiles: 3 },
  ];
  const hard = (flag: string): number => Number(execFileSync("sh", ["-c", `ulimit -H${flag}`]));
  const own = withinOwnLimits(most);
  expect(withinOwnLimits(few)).toEqual(few);
  // "unlimited" is no number.
  expect(own.openFiles).toBe(Math.min(hard("n") || Infinity, MOST_OPEN_FILES));
  // Else the step to the user would raise what the step before it has lowered, which fails without a privilege.
  expect(MOST_OPEN_FILES).toBe(MOST_FILES);
});

const STEPS = [
  { of: "util-linux", native: {} },
  ...[builtNative()].flatMap((path) =>
    path ? [{ of: "the native supervisor", native: { native: path } }] : [],
  ),
];

describe.runIf(isRoot && runAsTrouble() === undefined).each(STEPS)(
  "the exec step of a job's user by $of",
  ({ native }) => {
    it.each([
      ["in /tmp", () => folder(tmpdir())],
      [
        "behind a closed folder",
        () => {
          const state = join(folder("/var/tmp"), "state");
          mkdirSync(state);
          return state;
        },
      ],
    ])(
      "drops all of root, and hands over folders of a state folder %s",
      async (_where, stateOf) => {
        const state = stateOf();
        const lease = join(state, "hosts", "a", "lease");
        const checkpoints = join(state, "jobs", "j", "t1");
        const [own, other] = [join(lease, "scratch"), join(lease, "other")];
        for (const dir of [own, other, checkpoints])
          mkdirSync(dir, { recursive: true, mode: 0o700 });
        for (let dir = lease; dir !== state; dir = join(dir, "..")) chmodSync(dir, 0o700);
        const cover = closedAbove(state);
        const runAs = {
          user: hostUser("nobody"),
          limits: { processes: 30_000, openFiles: 512 },
          stateDir: state,
          ...native,
          ...(cover !== undefined && { cover }),
        };
        const step = asUser(runAs, { tmp: join(lease, "tmp"), folders: [own, checkpoints] });
        const script = `id -u; umask; ulimit -n; grep -E "CapEff|NoNew" /proc/self/status | tr -d "\\t\\n"; echo
echo x > "${own}/file-$1" && echo x > "$ORBWEAVER_CHECKPOINT_DIR/file-$1" && echo x > "/tmp/file-$1" && echo wrote
ls "${other}" "${state}" > /dev/null 2>&1 || echo denied`;
        const start = async (rank: string): Promise<string> => {
          const [program = "", ...args] = [...step, "sh", "-c", script, "job", rank];
          const env = { PATH: "/usr/bin:/bin", ORBWEAVER_CHECKPOINT_DIR: checkpoints };
          return (await run(program, args, { cwd: own, env })).stdout;
        };
        const said = await Promise.all(["0", "1", "2"].map(start));
        const want = [String(NOBODY), "0077", "512", "CapEff:0000000000000000NoNewPrivs:1"];
        for (const text of said)
          expect(text.trim().split("\n")).toEqual([...want, "wrote", "denied"]);
        expect(existsSync("/tmp/file-0")).toBe(false);
        expect(statSync(join(own, "file-2")).uid).toBe(NOBODY);
        expect(statSync(other).uid).toBe(0);
      },
    );

    it("ends with 126 where the user may not make its checkpoint folder", async () => {
      const state = folder(tmpdir());
      const runAs = { user: hostUser("nobody"), limits: { processes: 30_000, openFiles: 512 } };
      const handed = { tmp: join(state, "tmp"), folders: [] };
      const step = asUser({ ...runAs, ...native, stateDir: state }, handed);
      const [program = "", ...args] = [...step, "true"];
      const env = { ORBWEAVER_CHECKPOINT_DIR: "/etc/orbweaver-checkpoints" };
      await expect(run(program, args, { env })).rejects.toMatchObject({ code: 126 });
      expect(existsSync("/etc/orbweaver-checkpoints")).toBe(false);
    });

    it("hands over a tree without following the links in it, and gives a missing program a shell's code", async () => {
      const [state, elsewhere] = [folder(tmpdir()), folder("/var/tmp")];
      const given = join(state, "given");
      mkdirSync(join(given, "deep"), { recursive: true });
      symlinkSync(elsewhere, join(given, "deep", "link"));
      const user = hostUser("nobody");
      const runAs = { user, limits: { processes: 30_000, openFiles: 512 }, stateDir: state };
      const step = asUser({ ...runAs, ...native }, { tmp: join(state, "tmp"), folders: [], given });
      const [program = "", ...args] = [...step, "no-such-program"];
      await expect(run(program, args, { env: { PATH: "/bin" } })).rejects.toMatchObject({
        code: 127,
      });
      expect(statSync(join(given, "deep")).uid).toBe(user.uid);
      expect(statSync(elsewhere).uid).toBe(0);
      // The next process of the job finds the tree with what the job has linked into it by now.
      const secret = join(state, "secret");
      writeFileSync(secret, "");
      linkSync(secret, join(given, "deep", "own"));
      await expect(run(program, args, { env: { PATH: "/bin" } })).rejects.toMatchObject({
        code: 127,
      });
      expect(statSync(secret).uid).toBe(0);
    });

    it("starts where the state lies behind a closed folder in /tmp", async () => {
      const closed = folder(tmpdir());
      chmodSync(closed, 0o700);
      const state = join(closed, "state");
      mkdirSync(state);
      const limits = { processes: 30_000, openFiles: 512 };
      const runAs = { user: hostUser("nobody"), limits, stateDir: state, cover: closed };
      const step = asUser({ ...runAs, ...native }, { tmp: join(state, "tmp"), folders: [] });
      const [program = "", ...args] = [...step, "id", "-un"];
      expect((await run(program, args, { cwd: "/" })).stdout.trim()).toBe("nobody");
    });
  },
);

it("a name that the system does not know is refused", () => {
  expect(() => hostUser("no-such-user-anywhere")).toThrow(/no user/);
});
