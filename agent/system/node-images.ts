/**
 * @file Finds the runtimes for images that work on this machine, by trying each: the real `Images`.
 *
 * A client of Docker without its daemon does not count, nor does a bubblewrap that may make no namespaces. Cost: a start of each that is
 * installed, once in an agent's life.
 */

import { spawnSync } from "node:child_process";
import { accessSync, constants, readdirSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { IMAGE_RUNTIMES, type ImageRuntime } from "../../domain/job/job-image.ts";
import type { RootEntry } from "../images/image-launch.ts";
import type { Images } from "../ports/images.ts";

const TRIAL_MS = 10_000;
const PROGRAMS: Readonly<
  Record<ImageRuntime, { readonly name: string; readonly trial: readonly string[] }>
> = {
  podman: { name: "podman", trial: ["--version"] },
  docker: { name: "docker", trial: ["version", "--format", "{{.Server.Version}}"] },
  apptainer: { name: "apptainer", trial: ["--version"] },
  enroot: { name: "enroot", trial: ["version"] },
  bubblewrap: {
    name: "bwrap",
    trial: [
      ...["--die-with-parent", "--unshare-pid", "--cap-drop", "ALL", "--ro-bind", "/", "/"],
      ...["--proc", "/proc", "--dev", "/dev", "true"],
    ],
  },
};

export interface ImageMachine {
  /** Where programs are looked for. */
  readonly path: string | undefined;
  /** Without the native supervisor bubblewrap is left out: its steps keep signals from it. */
  readonly native: string | undefined;
}

export function nodeImages({ path, native }: ImageMachine): Images {
  const tools = IMAGE_RUNTIMES.flatMap((runtime) => {
    if (runtime === "bubblewrap" && native === undefined) return [];
    const { name, trial } = PROGRAMS[runtime];
    const program = programOn(path, name);
    if (program === undefined) return [];
    const { status } = spawnSync(program, trial, { stdio: "ignore", timeout: TRIAL_MS });
    return status === 0 ? [{ runtime, path: program }] : [];
  });
  const ids = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  return { tools, ids, entriesOf };
}

function programOn(path = "", name: string): string | undefined {
  const places = path.split(":").filter((dir) => dir.startsWith("/"));
  return places
    .map((dir) => join(dir, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

function entriesOf(root: string, path: string): readonly RootEntry[] {
  const folder = join(root, path);
  try {
    return readdirSync(folder, { withFileTypes: true }).map((entry): RootEntry => {
      const { name } = entry;
      if (entry.isSymbolicLink())
        return { name, kind: "link", to: readlinkSync(join(folder, name)) };
      return { name, kind: entry.isDirectory() ? "folder" : "file" };
    });
  } catch {
    return [];
  }
}
