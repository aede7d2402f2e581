/**
 * @file A small world for the search for a server: a PATH of its own with fake programs, a cache folder, a fake endpoint.
 *
 * The fake programs are shell scripts of built-ins only, so that the PATH can stay nearly empty and
 * what is installed on the machine changes nothing.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { Environment } from "../../../workers/server/environment.ts";
import type { ProvideOptions } from "../../../workers/server/index.ts";
import type { OnProgress, Progress } from "../../../workers/server/progress.ts";

export const NEW_VERSION = "temporal version 1.8.2 (Server 1.31.2, UI 2.50.1)";
export const OLD_VERSION = "temporal version 1.3.0 (Server 1.27.1, UI 2.36.0)";
/** A low port on which nothing listens. */
export const REFUSING_URL = "http://127.0.0.1:2";

export interface World {
  readonly folder: string;
  /** The only folder on the PATH. */
  readonly bin: string;
  readonly cacheDir: string;
  readonly env: Environment;
  /** Where the program lies in the cache. */
  readonly cached: string;
}

/** A fresh world that is removed when the test ends. */
export function newWorld(): World {
  const folder = mkdtempSync(join(tmpdir(), "orbweaver-find-"));
  onTestFinished(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const bin = join(folder, "bin");
  mkdirSync(bin);
  for (const name of ["tar", "gzip"]) {
    symlinkSync(execFileSync("which", [name], { encoding: "utf8" }).trim(), join(bin, name));
  }
  const cacheDir = join(folder, "cache");
  const key = "temporal-1.8.2-linux-x64";
  return {
    folder,
    bin,
    cacheDir,
    env: { PATH: bin, HOME: folder },
    cached: join(cacheDir, "orbweaver", key, "temporal"),
  };
}

/** Options that look at nothing outside `world`; the download refuses unless a base is given. */
export function optionsIn(
  world: World,
  more: Partial<ProvideOptions> = {},
): ProvideOptions & { readonly onProgress: OnProgress; readonly events: readonly Progress[] } {
  const events: Progress[] = [];
  return {
    env: world.env,
    cacheDir: world.cacheDir,
    downloadBaseUrl: REFUSING_URL,
    machine: { platform: "linux", arch: "x64" },
    onProgress: (event) => events.push(event),
    ...more,
    events,
  };
}

/** The ways in the order in which they closed, as `step state`. */
export function closedSteps(events: readonly Progress[]): readonly string[] {
  return events.filter(({ state }) => state !== "trying").map((e) => `${e.step} ${e.state}`);
}

export function reasonOf(events: readonly Progress[], step: Progress["step"]): string {
  return events.find((event) => event.step === step && event.state === "failed")?.reason ?? "";
}

export function writeScript(file: string, lines: readonly string[]): void {
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(file, ["#!/bin/sh", ...lines, ""].join("\n"));
  chmodSync(file, 0o755);
}

/** A `temporal` that says `version`. */
export function writeTemporal(file: string, version: string): void {
  writeScript(file, [`echo '${version}'`]);
}

export interface FakeGo {
  readonly version?: string;
  readonly toolchain?: string;
  /** What `go build` says before it ends. */
  readonly says?: readonly string[];
  readonly fails?: boolean;
  /** A FIFO that `go build` reads before it goes on. */
  readonly gate?: string;
}

/** Puts a `go` on the PATH; each of its builds adds a line to the returned file. */
export function writeGo(world: World, fake: FakeGo = {}): string {
  const { version = "go1.26.8", toolchain = "local", says = [], fails = false, gate } = fake;
  const buildsFile = join(world.folder, "builds");
  writeFileSync(buildsFile, "");
  writeScript(join(world.bin, "go"), [
    `if [ "$1" = env ]; then echo '${version}'; echo '${toolchain}'; exit 0; fi`,
    `echo "cgo=$CGO_ENABLED goos=$GOOS $*" >> '${buildsFile}'`,
    ...says.map((line) => `echo '${line}' >&2`),
    ...(gate === undefined ? [] : [`read go_on < '${gate}'`]),
    ...(fails ? ["exit 1"] : []),
    'while [ "$1" != -o ]; do shift; done',
    `printf '%s\\n' '#!/bin/sh' "echo '${NEW_VERSION}'" > "$2"`,
  ]);
  return buildsFile;
}

export function linesOf(file: string): readonly string[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "");
}

/** A module folder with a go.mod that asks for Go 1.26.4. */
export function writeModule(world: World): string {
  const folder = join(world.folder, "module");
  mkdirSync(folder);
  writeFileSync(join(folder, "go.mod"), "module fake\n\ngo 1.26.4\n");
  writeFileSync(join(folder, "go.sum"), "");
  return folder;
}

/** A tar.gz with a `temporal` that says `version`. */
export function tarOf(world: World, version: string): Buffer {
  const source = join(world.folder, "packed");
  writeTemporal(join(source, "temporal"), version);
  return execFileSync("tar", ["-czf", "-", "-C", source, "temporal"]);
}

/** A module folder whose checksums know `archive` as the release's program for linux/x64. */
export function pinArchive(world: World, archive: Buffer): string {
  const folder = join(world.folder, "module");
  mkdirSync(folder, { recursive: true });
  const sum = createHash("sha256").update(archive).digest("hex");
  writeFileSync(join(folder, "checksums.txt"), `${sum}  temporal_cli_1.8.2_linux_amd64.tar.gz\n`);
  return folder;
}

/** Serves on loopback until the test ends; gives the base URL. */
export async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return `http://127.0.0.1:${String(address.port)}`;
}
