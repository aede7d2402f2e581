/**
 * @file Builds the `temporal` program from the Go modules that `tools/temporal-server` pins.
 *
 * `go.sum` is complete, so the fetched modules are the pinned ones, from whatever proxy the user's Go uses. Built without cgo,
 * so no C compiler is needed. The first build costs about 4 minutes on two cores, 1.5 GB of modules and 2 GB of Go's build
 * cache.
 */
import { copyFile, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Machine } from "./cache.ts";
import { programName } from "./cache.ts";
import { runCommand } from "./command.ts";
import type { Made } from "./download.ts";
import { without, withoutTemporal } from "./environment.ts";
import type { Environment } from "./environment.ts";
import { findOnPath } from "./path-lookup.ts";
import { PINNED_SERVER, compareVersions, parseVersion } from "./version.ts";

export interface BuildOptions {
  /** The folder with the pinned go.mod and go.sum. */
  readonly moduleDir: string;
  readonly machine: Machine;
  readonly env: Environment;
  /** Folder of the built program. */
  readonly folder: string;
  readonly onDetail: (detail: string) => void;
}

/** Counted on linux/amd64; other platforms differ by a few. */
const ALL_MODULES = 205;
const ALL_PACKAGES = 1716;
/** One large module over a slow line, or the final link, may print nothing for minutes. */
const BUILD_SILENCE_MS = 300_000;
const GO_ENV_SILENCE_MS = 30_000;
const DETAIL_EVERY_MS = 1_000;
const SHOWN_FAULTS = 3;
const COMMAND_PACKAGE = "github.com/temporalio/cli/cmd/temporal";
const VERSION_VARIABLE = "github.com/temporalio/cli/internal/temporalcli.Version";

/** Since Go 1.21 an older Go fetches the toolchain that a module asks for. */
const FIRST_SWITCHING_GO = [1, 21, 0] as const;

export async function build(options: BuildOptions): Promise<Made> {
  const { folder, machine, moduleDir } = options;
  // A cross-compiling or workspace setting of the user would build the wrong thing.
  const env = {
    ...without(withoutTemporal(options.env), (name) => name === "GOOS" || name === "GOARCH"),
    CGO_ENABLED: "0",
    GOWORK: "off",
  };
  const go = await findOnPath(machine.platform === "win32" ? "go.exe" : "go", env);
  if (go === undefined) return { kind: "failed", reason: "go is not on the PATH" };
  const module = await readFile(join(moduleDir, "go.mod"), "utf8");
  const wanted = /^go (\S+)$/m.exec(module)?.[1] ?? "";
  const toolchain = await checkGo(go, wanted, { env, cwd: folder });
  if (toolchain.kind === "refused") return { kind: "failed", reason: toolchain.reason };

  const source = join(folder, "module");
  await mkdir(source);
  for (const name of ["go.mod", "go.sum"]) {
    await copyFile(join(moduleDir, name), join(source, name));
  }
  const program = join(folder, programName(machine.platform));
  const startMs = Date.now();
  let modules = 0;
  let packages = 0;
  const faults: string[] = [];
  const tell = (): void => {
    const counts =
      packages > 0
        ? `compiled ${String(packages)} of about ${String(ALL_PACKAGES)} packages`
        : `fetched ${String(modules)} of about ${String(ALL_MODULES)} modules`;
    options.onDetail(`${toolchain.text}, ${counts}, ${elapsed(Date.now() - startMs)}`);
  };
  tell();
  const telling = setInterval(tell, DETAIL_EVERY_MS);
  const end = await runCommand(
    go,
    [
      "build",
      "-mod=readonly",
      "-trimpath",
      "-buildvcs=false",
      "-v",
      "-ldflags",
      `-s -w -X ${VERSION_VARIABLE}=${PINNED_SERVER.cli}`,
      "-o",
      program,
      COMMAND_PACKAGE,
    ],
    {
      cwd: source,
      env,
      silenceMs: BUILD_SILENCE_MS,
      onErrorLine: (line) => {
        if (line.startsWith("go: downloading ")) modules += 1;
        else if (/^[\w./-]+$/.test(line)) packages += 1;
        else if (faults.length < SHOWN_FAULTS) faults.push(line);
        if (modules + packages === 1) tell();
      },
    },
  );
  clearInterval(telling);
  if (end.isOk) return { kind: "made", program };
  const said = faults.length === 0 ? "it gave no message" : faults.join("; ");
  return { kind: "failed", reason: `go build ${end.reason}: ${said}` };
}

type Toolchain =
  | { readonly kind: "fits"; readonly text: string }
  | { readonly kind: "refused"; readonly reason: string };

/** Whether this Go, or one that it may switch to, can build a module that requires `wanted`. */
async function checkGo(
  go: string,
  wanted: string,
  { env, cwd }: { readonly env: Environment; readonly cwd: string },
): Promise<Toolchain> {
  const end = await runCommand(go, ["env", "GOVERSION", "GOTOOLCHAIN"], {
    cwd,
    env,
    silenceMs: GO_ENV_SILENCE_MS,
  });
  const [version = "", policy = ""] = end.stdout.split("\n").map((line) => line.trim());
  const found = parseVersion(/(\d+)\.(\d+)(?:\.(\d+))?/.exec(version));
  const need = parseVersion(/(\d+)\.(\d+)(?:\.(\d+))?/.exec(wanted));
  if (!end.isOk || found === undefined || need === undefined) {
    const said = end.errorLines.at(-1) ?? version;
    return { kind: "refused", reason: `${go} env ${end.reason || "was not understood"}: ${said}` };
  }
  if (compareVersions(found, need) >= 0) return { kind: "fits", text: version };
  if (compareVersions(found, FIRST_SWITCHING_GO) < 0) {
    return { kind: "refused", reason: `${go} is ${version}, too old; ${wanted} is needed` };
  }
  if (!/(^|\+)(auto|path)$/.test(policy)) {
    const reason = `${go} is ${version}, ${wanted} is needed, and GOTOOLCHAIN=${policy} forbids the switch`;
    return { kind: "refused", reason };
  }
  return { kind: "fits", text: `${version} switching to go${wanted}` };
}

function elapsed(durationMs: number): string {
  const seconds = Math.floor(durationMs / 1000);
  return `${String(Math.floor(seconds / 60))}m${String(seconds % 60).padStart(2, "0")}s`;
}
