/**
 * @file Finds a Temporal server: the first way that works, each one reported.
 *
 * In this order: an address that the caller was given (nothing is started then), a new enough `temporal` on the PATH, the
 * project's cache, the download that the SDKs use, a build from the Go modules that the package pins. Downloaded and built
 * programs go to the cache, one process at a time. Every input is a parameter; the defaults are the real world's.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { ApplicationFailure } from "@temporalio/common";
import { build } from "./build.ts";
import {
  cacheSlot,
  checkSlot,
  discard,
  inPartialFolder,
  install,
  programName,
  userCacheFolder,
} from "./cache.ts";
import type { CacheSlot, Machine } from "./cache.ts";
import { download } from "./download.ts";
import type { Made } from "./download.ts";
import type { Environment } from "./environment.ts";
import { withLock } from "../../agent/system/process-lock.ts";
import { packageRoot } from "./package-root.ts";
import { findOnPath } from "./path-lookup.ts";
import { STEP_TITLES } from "./progress.ts";
import type { OnProgress, Step } from "./progress.ts";
import { PINNED_SERVER, checkBinary } from "./version.ts";

export interface ProvideOptions {
  readonly onProgress?: OnProgress;
  readonly env?: Environment;
  /** The user's cache folder; `orbweaver` is made in it. */
  readonly cacheDir?: string;
  readonly downloadBaseUrl?: string;
  /** A download is given up after this long without a byte. */
  readonly stallMs?: number;
  /** The folder with the pinned go.mod and go.sum, and the checksums of the downloads. */
  readonly moduleDir?: string;
  readonly machine?: Machine;
}

export interface ServerBinary {
  readonly path: string;
  readonly source: "path" | "cache" | "download" | "build";
}

export interface GivenServer {
  readonly address: string;
  readonly source: "address";
}

export interface FindOptions extends ProvideOptions {
  /** A server that runs already, from TEMPORAL_ADDRESS or a profile. */
  readonly address?: string;
}

const DOWNLOAD_BASE_URL = "https://temporal.download";
const DOWNLOAD_STALL_MS = 15_000;

/** The given server if there is one, else a program to start. */
export async function findServer(options: FindOptions): Promise<GivenServer | ServerBinary> {
  const { address, onProgress } = options;
  if (address === undefined) return await provideServerBinary(options);
  onProgress?.({ step: "address", state: "ok", detail: `${address} is used, nothing is started` });
  return { address, source: "address" };
}

/** A `temporal` program that runs and is new enough; throws TEMPORAL_SERVER_UNAVAILABLE. */
export async function provideServerBinary(options: ProvideOptions = {}): Promise<ServerBinary> {
  const search = newSearch(options);
  return (
    (await fromPath(search)) ??
    (await fromCache(search)) ??
    (await fill(search)) ??
    unavailable(search)
  );
}

/** The parameters with their defaults, and what failed so far. */
interface Search {
  readonly env: Environment;
  readonly machine: Machine;
  readonly slot: CacheSlot;
  readonly baseUrl: string;
  readonly stallMs: number;
  readonly moduleDir: () => string;
  readonly reasons: Map<Step, string>;
  readonly trying: (step: Step, detail: string) => void;
  readonly found: (step: ServerBinary["source"], path: string, version: string) => ServerBinary;
  readonly failed: (step: Step, reason: string) => undefined;
}

function newSearch(options: ProvideOptions): Search {
  const env = options.env ?? process.env;
  const machine = options.machine ?? { platform: process.platform, arch: process.arch };
  const report = options.onProgress ?? (() => undefined);
  const reasons = new Map<Step, string>();
  return {
    env,
    machine,
    slot: cacheSlot(options.cacheDir ?? userCacheFolder(env, machine.platform), machine),
    baseUrl: options.downloadBaseUrl ?? DOWNLOAD_BASE_URL,
    stallMs: options.stallMs ?? DOWNLOAD_STALL_MS,
    moduleDir: () => options.moduleDir ?? join(packageRoot(), "tools", "temporal-server"),
    reasons,
    trying: (step, detail) => {
      report({ step, state: "trying", detail });
    },
    found: (step, path, version) => {
      report({ step, state: "ok", detail: `${path} (${version})` });
      return { path, source: step };
    },
    failed: (step, reason) => {
      reasons.set(step, reason);
      report({ step, state: "failed", detail: STEP_TITLES[step], reason });
      return undefined;
    },
  };
}

async function fromPath(search: Search): Promise<ServerBinary | undefined> {
  const name = programName(search.machine.platform);
  const path = await findOnPath(name, search.env);
  if (path === undefined) return search.failed("path", `${name} is not on the PATH`);
  const check = await checkBinary(path, search.env);
  if (check.kind === "refused") return search.failed("path", check.reason);
  return search.found("path", path, check.text);
}

async function fromCache(search: Search): Promise<ServerBinary | undefined> {
  const { slot } = search;
  const check = await checkSlot(slot, search.env);
  switch (check.kind) {
    case "fits":
      return search.found("cache", slot.binary, check.text);
    case "absent":
      return search.failed("cache", `${slot.binary} does not exist`);
    case "refused":
      return search.failed("cache", `${check.reason}; it will be replaced`);
  }
}

/** Fills the cache under the lock, unless another process has filled it meanwhile. */
async function fill(search: Search): Promise<ServerBinary | undefined> {
  const { slot } = search;
  try {
    await mkdir(slot.folder, { recursive: true });
    const onWait = (holder: string): void => {
      search.trying("cache", `${holder} is filling the cache, waiting for it`);
    };
    return await withLock(slot.lockFile, { onWait }, async () => {
      const check = await checkSlot(slot, search.env);
      if (check.kind === "fits") return search.found("cache", slot.binary, check.text);
      if (check.kind === "refused") await discard(slot);
      return await inPartialFolder(
        slot,
        async (folder) => (await fromDownload(search, folder)) ?? (await fromBuild(search, folder)),
      );
    });
  } catch (error) {
    const reason = `its folder ${slot.folder} cannot be used: ${messageOf(error)}`;
    search.failed("download", reason);
    return search.failed("build", reason);
  }
}

async function fromDownload(search: Search, folder: string): Promise<ServerBinary | undefined> {
  const { baseUrl, machine, env, stallMs } = search;
  const onDetail = (detail: string): void => {
    search.trying("download", detail);
  };
  return await fromMaker(search, "download", () => {
    const checksumsFile = join(search.moduleDir(), "checksums.txt");
    return download({ baseUrl, machine, env, folder, checksumsFile, stallMs, onDetail });
  });
}

async function fromBuild(search: Search, folder: string): Promise<ServerBinary | undefined> {
  const { machine, env } = search;
  const onDetail = (detail: string): void => {
    search.trying("build", detail);
  };
  return await fromMaker(search, "build", () => {
    return build({ moduleDir: search.moduleDir(), machine, env, folder, onDetail });
  });
}

/** Makes a program and installs it; a full disk or a missing file fails this way, not the search. */
async function fromMaker(
  search: Search,
  step: "download" | "build",
  make: () => Promise<Made>,
): Promise<ServerBinary | undefined> {
  try {
    const made = await make();
    if (made.kind === "failed") return search.failed(step, made.reason);
    const check = await install(made.program, search.slot, search.env);
    if (check.kind === "refused") return search.failed(step, check.reason);
    return search.found(step, search.slot.binary, check.text);
  } catch (error) {
    return search.failed(step, messageOf(error));
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function unavailable(search: Search): never {
  const ways = [...search.reasons].map(([step, reason]) => `  ${STEP_TITLES[step]}: ${reason}`);
  throw ApplicationFailure.nonRetryable(
    [
      `the embedded Temporal server needs the temporal program ${PINNED_SERVER.cli} or newer; every way to get it failed:`,
      ...ways,
      `Put such a program on the PATH or at ${search.slot.binary}, install a current Go, allow the download, or give the address of a running server.`,
    ].join("\n"),
    "TEMPORAL_SERVER_UNAVAILABLE",
  );
}
