import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { completeIn, MOST_ENTRIES, newestCheckpoint } from "../../../agent/folder/checkpoints.ts";
import type { FileFact, Files } from "../../../agent/ports/files.ts";
import { nodeFiles } from "../../../agent/system/node-files.ts";
import { FakeMachine } from "../fakes.ts";

it("is the last complete one of the highest token, also while a stale run writes below a lower one", async () => {
  const machine = new FakeMachine();
  const { files } = machine.system();
  const write = async (path: string): Promise<void> => {
    await machine.pass(1_000);
    files.makeFolder(path.slice(0, path.lastIndexOf("/")));
    files.write(path, "weights");
  };
  await write("/ckpt/10/step-2");
  await write("/ckpt/10/step-1");
  await write("/ckpt/10/step-3.tmp");
  await write("/ckpt/9/step-9");
  await write("/ckpt/notes/step-99");
  expect(newestCheckpoint(files, "/ckpt")?.path).toBe("/ckpt/10/step-1");
  expect(newestCheckpoint(files, "/none")).toBeUndefined();
});

it("is of the last run that is named, of a job whose runs were in several fleets", async () => {
  const machine = new FakeMachine();
  const { files } = machine.system();
  for (const token of [500, 3, 7]) {
    await machine.pass(1_000);
    files.makeFolder(`/ckpt/${String(token)}`);
    files.write(`/ckpt/${String(token)}/step-1`, "weights");
  }
  expect(newestCheckpoint(files, "/ckpt", { runs: [500, 3] })?.path).toBe("/ckpt/3/step-1");
  // A run that left none stands back.
  expect(newestCheckpoint(files, "/ckpt", { runs: [3, 500, 9] })?.path).toBe("/ckpt/500/step-1");
  expect(newestCheckpoint(files, "/ckpt")?.path).toBe("/ckpt/500/step-1");
});

describe("a job's own folder", () => {
  it("ends neither the agent nor a look when it has links to themselves", () => {
    const dir = mkdtempSync(join(tmpdir(), "ow-checkpoints-"));
    try {
      mkdirSync(join(dir, "5"));
      symlinkSync("loop", join(dir, "5", "loop"));
      writeFileSync(join(dir, "5", "step-1"), "weights");
      expect(newestCheckpoint(nodeFiles, dir)?.path).toBe(join(dir, "5", "step-1"));
      symlinkSync("6", join(dir, "6"));
      expect(completeIn(nodeFiles, join(dir, "6"), undefined)).toEqual([]);
      // Before a start it is said: without the newest one the run would begin from an older one.
      expect(() => newestCheckpoint(nodeFiles, dir)).toThrow("ELOOP");
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  const uid = process.getuid?.();
  it.runIf(uid !== undefined && process.platform === "linux")(
    "shows an agent of root only what its user keeps there, and nothing through links",
    () => {
      const dir = mkdtempSync(join(tmpdir(), "ow-checkpoints-"));
      try {
        mkdirSync(join(dir, "closed"));
        writeFileSync(join(dir, "closed", "name"), "of others");
        mkdirSync(join(dir, "5"));
        writeFileSync(join(dir, "5", "step-1"), "weights");
        symlinkSync("closed", join(dir, "6"));
        expect(newestCheckpoint(nodeFiles, dir)?.path).toBe(join(dir, "6", "name"));
        expect(newestCheckpoint(nodeFiles, dir, { uid })?.path).toBe(join(dir, "5", "step-1"));
        expect(newestCheckpoint(nodeFiles, dir, { uid: (uid ?? 0) + 1 })).toBeUndefined();
        // A link is one entry, with its own time, whatever it leads to.
        const old = new Date(86_400_000);
        utimesSync(join(dir, "closed", "name"), old, old);
        symlinkSync(join(dir, "closed", "name"), join(dir, "5", "z"));
        const [linked] = completeIn(nodeFiles, join(dir, "5"), uid).filter(({ path }) =>
          path.endsWith("z"),
        );
        expect(linked?.atMs).toBeGreaterThan(86_400_000);
      } finally {
        rmSync(dir, { recursive: true });
      }
    },
  );

  it("costs a bounded look, whatever the number of entries", () => {
    const names = Array.from({ length: MOST_ENTRIES + 5 }, (_, at) => String(at).padStart(6, "0"));
    let looks = 0;
    const files = {
      list: () => [...names].reverse(),
      stat: (): FileFact => ({ kind: "file", sizeBytes: 1, mtimeMs: (looks += 1) }),
    } as unknown as Files;
    expect(completeIn(files, "/ckpt/5", undefined).at(-1)?.path).toBe(
      `/ckpt/5/${names.at(-1) ?? ""}`,
    );
    expect(looks).toBe(MOST_ENTRIES);
  });
});
