/**
 * @file The Temporal server version that Orbweaver needs, and whether a given `temporal` program is new enough.
 *
 * Where the program prints the server's version, that decides (a build from source prints 0.0.0-DEV for its command line);
 * otherwise the version of the command line does.
 */
import { tmpdir } from "node:os";
import { runCommand } from "./command.ts";
import { withoutTemporal } from "./environment.ts";
import type { Environment } from "./environment.ts";

/** The versions that `tools/temporal-server/go.mod` pins and that the download asks for. */
export const PINNED_SERVER = { cli: "1.8.2", server: "1.31.2" } as const;

const OLDEST_CLI = [1, 8, 2] as const;
const OLDEST_SERVER = [1, 31, 0] as const;
/** A cold read of 138 MB from a slow disk may take a while. */
const VERSION_SILENCE_MS = 30_000;

type Version = readonly [number, number, number];

export type VersionCheck =
  | { readonly kind: "fits"; readonly text: string }
  | { readonly kind: "refused"; readonly reason: string };

/** Runs `binary --version` and evaluates the answer. */
export async function checkBinary(binary: string, env: Environment): Promise<VersionCheck> {
  const end = await runCommand(binary, ["--version"], {
    cwd: tmpdir(),
    env: withoutTemporal(env),
    silenceMs: VERSION_SILENCE_MS,
  });
  if (!end.isOk) {
    const said = end.errorLines.at(-1);
    const quote = said === undefined ? "" : ` ("${said}")`;
    return { kind: "refused", reason: `${binary} --version ${end.reason}${quote}` };
  }
  return checkVersionText(binary, end.stdout.trim());
}

/** Evaluates one line such as `temporal version 1.8.2 (Server 1.31.2, UI 2.50.1)`. */
export function checkVersionText(binary: string, text: string): VersionCheck {
  const cli = parseVersion(/version (\d+)\.(\d+)\.(\d+)/.exec(text));
  const server = parseVersion(/Server (\d+)\.(\d+)\.(\d+)/.exec(text));
  if (cli === undefined && server === undefined) {
    const shown = text.slice(0, 80);
    return { kind: "refused", reason: `${binary} prints "${shown}", which is not a version` };
  }
  const isNewEnough =
    server === undefined
      ? cli !== undefined && compareVersions(cli, OLDEST_CLI) >= 0
      : compareVersions(server, OLDEST_SERVER) >= 0;
  if (isNewEnough) return { kind: "fits", text };
  const need = `${OLDEST_CLI.join(".")} (server ${OLDEST_SERVER.join(".")})`;
  return { kind: "refused", reason: `${binary} is "${text}", older than ${need}` };
}

/** Numbers of a match with three groups; a missing group counts as 0. */
export function parseVersion(match: RegExpExecArray | null): Version | undefined {
  if (match === null) return undefined;
  return [Number(match[1] ?? 0), Number(match[2] ?? 0), Number(match[3] ?? 0)];
}

/** Negative, zero or positive as `left` is older than, equal to or newer than `right`. */
export function compareVersions(left: Version, right: Version): number {
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
}
