import { expect, it } from "vitest";
import { newestCheckpoint } from "../../../agent/folder/checkpoints.ts";
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
  expect(newestCheckpoint(files, "/ckpt", [500, 3])?.path).toBe("/ckpt/3/step-1");
  // A run that left none stands back.
  expect(newestCheckpoint(files, "/ckpt", [3, 500, 9])?.path).toBe("/ckpt/500/step-1");
  expect(newestCheckpoint(files, "/ckpt")?.path).toBe("/ckpt/500/step-1");
});
