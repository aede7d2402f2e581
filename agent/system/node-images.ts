/**
 * @file Finds the runtimes for images that work on this machine, by trying each as launches start it: the real `Images`.
 *
 * A client of Docker without its daemon does not count, nor does a bubblewrap that may make no namespaces, nor a podman without its init, without crun, or on
 * cgroups that crun refuses. Cost: a start of each that is installed, once in an agent's life.
 */

import { spawnSync } from "node:child_process";
import { accessSync, constants, mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MOST_OPEN_FILES, withinOwnLimits, type ProcessLimits } from "../../access/run-as.ts";
import { IMAGE_RUNTIMES, type ImageRuntime } from "../../domain/job/job-image.ts";
import type { RootEntry } from "../images/image-launch.ts";
import { limitWords } from "../images/podman.ts";
import { runtimeEnv, type Environment } from "../images/runtime-env.ts";
import type { Images } from "../ports/images.ts";
import { textOf } from "./system-files.ts";

const TRIAL_MS = 10_000;
const PID_MAX = "/proc/sys/kernel/pid_max";

interface Trial {
  readonly path: string;
  readonly limits: ProcessLimits;
  /** An empty folder. */
  readonly root: string;
}

interface RuntimeProgram {
  readonly name: string;
  readonly words: (trial: Trial) => readonly string[];
  /** The exit codes of one that works. */
  readonly works: readonly number[];
}

/** Of a program that the init of Podman, and a runtime itself, does not find. */
const NOT_THERE = [1, 127];
const PROGRAMS: Readonly<Record<ImageRuntime, RuntimeProgram>> = {
  podman: {
    name: "podman",
    // As far as a container can come in which there is nothing.
    words: ({ path, limits, root }) => [
      ...["run", "--rm", "--init", "--network", "host", "--cgroups", "disabled"],
      ...limitWords({ tool: { runtime: "podman", path }, limits }),
      ...["--rootfs", root, "/program"],
    ],
    works: NOT_THERE,
  },
  docker: {
    name: "docker",
    words: () => ["version", "--format", "{{.Server.Version}}"],
    works: [0],
  },
  apptainer: { name: "apptainer", words: () => ["--version"], works: [0] },
  enroot: { name: "enroot", words: () => ["version"], works: [0] },
  bubblewrap: {
    name: "bwrap",
    words: () => [
      ...["--die-with-parent", "--unshare-pid", "--cap-drop", "ALL", "--ro-bind", "/", "/"],
      ...["--proc", "/proc", "--dev", "/dev", "true"],
    ],
    works: [0],
  },
};

export interface ImageMachine {
  /** The agent's own. Programs are looked for in its PATH. */
  readonly env: Environment;
  /** Without the native supervisor bubblewrap is left out: its steps keep signals from it. */
  readonly native: string | undefined;
  /** What a process of a job begins with where the agent starts all of them as other users (`access/run-as.ts`). */
  readonly become?: readonly string[];
}

export function nodeImages({ env, native, become }: ImageMachine): Images {
  const limits = withinOwnLimits({
    processes: Number(textOf(PID_MAX)) || Infinity,
    openFiles: MOST_OPEN_FILES,
  });
  const root = mkdtempSync(join(tmpdir(), "orbweaver-root-"));
  try {
    const tools = IMAGE_RUNTIMES.flatMap((runtime) => {
      if (runtime === "bubblewrap" && native === undefined) return [];
      const { name, words, works } = PROGRAMS[runtime];
      const path = programOn(env["PATH"], name);
      if (path === undefined) return [];
      const command = [...(become ?? []), path, ...words({ path, limits, root })];
      const [program = "", ...rest] = command;
      const isOther = become !== undefined;
      const { status } = spawnSync(program, rest, {
        ...{ stdio: "ignore", timeout: TRIAL_MS },
        env: {
          ...{ PATH: env["PATH"], HOME: env["HOME"], LANG: env["LANG"] },
          ...runtimeEnv(env, { runtime, to: "fetch", isOther }),
        },
      });
      return status !== null && works.includes(status) ? [{ runtime, path }] : [];
    });
    const ids = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
    return { tools, ids, limits, entriesOf };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
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
