/**
 * @file Downloads the `temporal` program from the place that the Temporal SDKs use.
 *
 * The endpoint answers with the archive's address and the name of the file in it. The SDK's own
 * downloader is not used because it waits without end on a silent line and gives the server 5 s to
 * start. Here every byte of an answer re-arms one timer; when it fires the download is given up.
 * An archive is opened only when it has the pinned checksum (`checksums.ts`).
 */
import { open } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Machine } from "./cache.ts";
import { checkArchive } from "./checksums.ts";
import { runCommand } from "./command.ts";
import type { Environment } from "./environment.ts";
import { PINNED_SERVER } from "./version.ts";

export interface DownloadOptions {
  readonly baseUrl: string;
  readonly machine: Machine;
  readonly env: Environment;
  /** Where the archive and the program are put. */
  readonly folder: string;
  /** SHA-256 sums of the release's archives, as `sha256sum` prints them. */
  readonly checksumsFile: string;
  readonly stallMs: number;
  readonly onDetail: (detail: string) => void;
}

export type Made =
  | { readonly kind: "made"; readonly program: string }
  | { readonly kind: "failed"; readonly reason: string };

const ARCHES = new Map<string, string>([
  ["x64", "amd64"],
  ["arm64", "arm64"],
]);
const PLATFORMS = new Map<string, string>([
  ["linux", "linux"],
  ["darwin", "darwin"],
  ["win32", "windows"],
]);
const UNPACK_SILENCE_MS = 120_000;
const MB = 1_000_000;

const INFO = z.object({
  archiveUrl: z.url({ protocol: /^https?$/ }),
  // A plain relative name: it goes to tar and becomes part of a path.
  fileToExtract: z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]*$/),
});

export async function download(options: DownloadOptions): Promise<Made> {
  const { machine, env, folder } = options;
  const arch = ARCHES.get(machine.arch);
  const platform = PLATFORMS.get(machine.platform);
  if (arch === undefined || platform === undefined) {
    const reason = `there is no official program for ${machine.platform}/${machine.arch}`;
    return { kind: "failed", reason };
  }
  const query = new URLSearchParams({ arch, platform, format: "tar.gz" });
  const infoUrl = `${options.baseUrl}/cli/v${PINNED_SERVER.cli}?${query.toString()}`;
  const archive = join(folder, "archive.tar.gz");
  let currentUrl = infoUrl;
  let lastDetail = "";
  try {
    options.onDetail(`asking ${new URL(infoUrl).host} for ${PINNED_SERVER.cli}`);
    const info = INFO.parse(
      await withStallLimit(options.stallMs, async (signal) => {
        const response = await get(infoUrl, signal);
        return await response.json();
      }),
    );
    currentUrl = info.archiveUrl;
    if (new URL(info.archiveUrl).protocol !== new URL(infoUrl).protocol) {
      return { kind: "failed", reason: `the archive's address is not safe: ${info.archiveUrl}` };
    }
    await withStallLimit(options.stallMs, async (signal, onBytes) => {
      await save(await get(info.archiveUrl, signal), archive, (done, total) => {
        onBytes();
        const detail = `${describeSize(done, total)} of ${info.archiveUrl}`;
        if (detail !== lastDetail) options.onDetail(detail);
        lastDetail = detail;
      });
    });
    const assetName = `temporal_cli_${PINNED_SERVER.cli}_${platform}_${arch}.tar.gz`;
    const check = await checkArchive(archive, assetName, options.checksumsFile);
    if (check.kind === "refused") return { kind: "failed", reason: check.reason };
    const unpacked = await runCommand("tar", ["-xzf", "archive.tar.gz", info.fileToExtract], {
      cwd: folder,
      env,
      silenceMs: UNPACK_SILENCE_MS,
    });
    if (!unpacked.isOk) {
      const said = unpacked.errorLines.at(-1) ?? "no message";
      return { kind: "failed", reason: `tar ${unpacked.reason} on the archive: ${said}` };
    }
    return { kind: "made", program: join(folder, info.fileToExtract) };
  } catch (error) {
    const { origin, pathname } = new URL(currentUrl);
    const reason = `${origin}${pathname}: ${explain(error)}${proxyHint(env)}`;
    return { kind: "failed", reason };
  }
}

/** Runs `work` with a signal that aborts when `onBytes` was not called for `stallMs`. */
async function withStallLimit<T>(
  stallMs: number,
  work: (signal: AbortSignal, onBytes: () => void) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const timer = setTimeout(() => {
    controller.abort(new Error(`no progress for ${String(stallMs / 1000)} s`));
  }, stallMs);
  try {
    return await work(controller.signal, () => timer.refresh());
  } finally {
    clearTimeout(timer);
  }
}

async function get(url: string, signal: AbortSignal): Promise<Response> {
  const response = await fetch(url, { signal });
  if (!response.ok) throw new Error(`HTTP ${String(response.status)} ${response.statusText}`);
  return response;
}

async function save(
  response: Response,
  file: string,
  onProgress: (doneBytes: number, totalBytes: number | undefined) => void,
): Promise<void> {
  if (response.body === null) throw new Error("the answer is empty");
  const length = Number(response.headers.get("content-length") ?? Number.NaN);
  const target = await open(file, "w");
  try {
    let doneBytes = 0;
    for await (const chunk of response.body) {
      await target.writeFile(chunk);
      doneBytes += chunk.byteLength;
      onProgress(doneBytes, Number.isFinite(length) ? length : undefined);
    }
  } finally {
    await target.close();
  }
}

function describeSize(doneBytes: number, totalBytes: number | undefined): string {
  const done = (doneBytes / MB).toFixed(0);
  return totalBytes === undefined ? `${done} MB` : `${done} of ${(totalBytes / MB).toFixed(0)} MB`;
}

/** fetch hides the reason of a refused connection in `cause`. */
function explain(error: unknown): string {
  if (error instanceof z.ZodError) {
    return `the answer has another form than the endpoint's: ${z.prettifyError(error)}`;
  }
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}

function proxyHint(env: Environment): string {
  const proxy = env["HTTPS_PROXY"] ?? env["https_proxy"];
  return proxy === undefined || proxy === ""
    ? ""
    : " (HTTPS_PROXY is set, but this download does not go through a proxy)";
}
