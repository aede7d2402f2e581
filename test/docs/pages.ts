/**
 * @file The pages of the repository, the blocks of commands in them that are marked runnable, and a folder to run these in.
 *
 * A block is runnable when its fence says so: `sh runnable` needs nothing but the build, `sh runnable fleet` also a fleet, which is up
 * already unless the block itself says `orbweaver up`. `CONTRIBUTING.md` tells authors the same.
 */

import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { removeFolder } from "../support/remove-folder.ts";

export const ROOT = path.resolve(import.meta.dirname, "../..");

/** Folders that are made by tools or hold what others wrote. */
const NOT_OURS = new Set(["node_modules", "dist", "build", ".git", "LICENSES"]);

export interface Page {
  /** Relative to the root. */
  readonly file: string;
  readonly lines: readonly string[];
}

export interface Block {
  readonly file: string;
  readonly line: number;
  readonly needs: "build" | "fleet";
  readonly commands: string;
}

/** All Markdown files of the repository, by path. */
export function pages(folder = ""): readonly Page[] {
  const entries = readdirSync(path.join(ROOT, folder), { withFileTypes: true });
  return entries
    .filter(({ name }) => !NOT_OURS.has(name))
    .flatMap((entry) => {
      const file = path.posix.join(folder, entry.name);
      if (entry.isDirectory()) return pages(file);
      if (!entry.isFile() || !entry.name.endsWith(".md")) return [];
      return [{ file, lines: readFileSync(path.join(ROOT, file), "utf8").split("\n") }];
    })
    .sort((a, b) => (a.file < b.file ? -1 : 1));
}

/** The runnable blocks of a page, in order. A fence that says `runnable` in any other way throws. */
export function runnableBlocks({ file, lines }: Page): readonly Block[] {
  const blocks: Block[] = [];
  let from: number | undefined;
  let info = "";
  for (const [index, line] of lines.entries()) {
    const fence = /^\s*```(.*)$/.exec(line);
    if (fence === null) continue;
    if (from === undefined) {
      from = index + 1;
      info = (fence[1] ?? "").trim();
      continue;
    }
    if (/\brunnable\b/.test(info)) {
      const needs = NEEDS.get(info);
      if (needs === undefined)
        throw new Error(`${file}:${from} says "${info}"; want ${[...NEEDS.keys()].join(" or ")}`);
      blocks.push({ file, line: from, needs, commands: lines.slice(from, index).join("\n") });
    }
    from = undefined;
  }
  return blocks;
}

const NEEDS: ReadonlyMap<string, Block["needs"]> = new Map([
  ["sh runnable", "build"],
  ["sh runnable fleet", "fleet"],
]);

export const blocksThatNeed = (needs: Block["needs"]): readonly Block[] =>
  pages()
    .flatMap(runnableBlocks)
    .filter((block) => block.needs === needs);

export interface Scratch {
  /** Runs commands as a reader would, with `orbweaver` on the PATH; throws at the first that fails. Returns what they printed. */
  readonly run: (commands: string) => string;
  readonly remove: () => void;
}

/** A folder of its own that looks like a clone to commands: `data/` is the clone's, `examples/` a copy. */
export function openScratch(): Scratch {
  const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-docs-"));
  symlinkSync(path.join(ROOT, "data"), path.join(folder, "data"));
  cpSync(path.join(ROOT, "examples"), path.join(folder, "examples"), { recursive: true });
  const own = Object.entries(process.env).filter(([name]) => !/^(TEMPORAL|ORBWEAVER)_/.test(name));
  const env = {
    ...Object.fromEntries(own),
    PATH: `${path.join(ROOT, "tools/bin")}:${process.env["PATH"] ?? ""}`,
    ORBWEAVER_STATE_DIR: path.join(folder, "state"),
    TEMPORAL_CONFIG_FILE: path.join(folder, "no-such-profile.toml"),
    NO_COLOR: "1",
  };
  return {
    run: (commands) => {
      const done = spawnSync("sh", ["-ex", "-c", commands], {
        cwd: folder,
        env,
        encoding: "utf8",
        timeout: 600_000,
      });
      if (done.status !== 0)
        // The command that failed is the last that `-x` shows. Reports of a run cut long messages off, so it comes first.
        throw new Error(
          `status ${String(done.status ?? done.signal)} after\n${done.stderr.split("\n").slice(-12).join("\n")}\nin\n${commands}\n${done.stdout}`,
        );
      return done.stdout;
    },
    remove: () => {
      removeFolder(folder);
    },
  };
}
