/** @file Images that tests make by hand from this machine's own programs, and sessions beside what runs in them. */

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readJson } from "../../../agent/folder/json-files.ts";
import type { LaunchPlan } from "../../../agent/folder/launch-files.ts";
import { execPart } from "../../../agent/sessions/exec-part.ts";
import type { RunOrder } from "../../../protocol/agent-contract.ts";
import { folder, launchIn, type TestAgent } from "../fixture.ts";

const PROGRAMS = [
  ...["sh", "cat", "id", "sleep", "setsid", "ls", "mkdir", "touch", "env"],
  ...["head", "grep"],
];

/** A root with a shell and a few programs of this machine, and the libraries that they load. */
export function makeRoot(): string {
  const root = folder();
  const copy = (path: string): void => {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    copyFileSync(path, join(root, path));
  };
  for (const name of PROGRAMS) {
    const program = execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();
    const inRoot = join(root, "programs", name);
    mkdirSync(dirname(inRoot), { recursive: true });
    copyFileSync(program, inRoot);
    const libraries = execFileSync("ldd", [program], { encoding: "utf8" });
    for (const [path] of libraries.matchAll(/\/\S+/g)) copy(path);
  }
  symlinkSync("programs", join(root, "bin"));
  for (const name of ["tmp", "proc", "dev", "etc"]) mkdirSync(join(root, name));
  writeFileSync(join(root, "etc", "name"), "of the image\n");
  return root;
}

/** Runs a command beside rank 0, as a session does. */
export async function execBeside(
  agent: TestAgent,
  order: RunOrder,
  command: readonly string[],
): Promise<{ readonly said: string; readonly exit: unknown }> {
  const launch = launchIn(agent.filesOf(order));
  const plan = readJson<LaunchPlan>(launch.system.files, launch.files.plan);
  const [rank] = plan?.ranks ?? [];
  if (plan === undefined || rank === undefined) throw new Error("the launch has no plan");
  let said = "";
  const exit = await new Promise<unknown>((resolve) => {
    execPart(
      { launch, plan, rank },
      { command, idleMs: 60_000 },
      {
        say: (word) => resolve("exit" in word ? word.exit : word),
        write: (_channel, bytes) => {
          said += bytes.toString();
          return true;
        },
        end: () => undefined,
        open: () => undefined,
        drop: () => undefined,
      },
    );
  });
  return { said, exit };
}
