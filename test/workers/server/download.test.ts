import { existsSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { download } from "../../../workers/server/download.ts";
import type { DownloadOptions, Made } from "../../../workers/server/download.ts";
import { PINNED_SERVER, provideServerBinary } from "../../../workers/server/index.ts";
import { packageRoot } from "../../../workers/server/package-root.ts";
import {
  NEW_VERSION,
  closedSteps,
  linesOf,
  newWorld,
  optionsIn,
  pinArchive,
  reasonOf,
  serve,
  tarOf,
  writeGo,
  writeModule,
} from "./fakes.ts";
import type { World } from "./fakes.ts";

async function downloadIn(
  world: World,
  baseUrl: string,
  more: Partial<DownloadOptions> = {},
): Promise<Made> {
  return await download({
    baseUrl,
    machine: { platform: "linux", arch: "x64" },
    env: world.env,
    folder: mkdtempSync(join(world.folder, "work-")),
    checksumsFile: join(world.folder, "module", "checksums.txt"),
    // No answer is late only because the machine is busy.
    stallMs: 60_000,
    onDetail: () => undefined,
    ...more,
  });
}

function infoFor(host: string | undefined, fileToExtract = "temporal"): string {
  return JSON.stringify({ archiveUrl: `http://${host ?? ""}/archive.tar.gz`, fileToExtract });
}

test("the endpoint is asked for this version and machine, and what it names ends up in the cache", async () => {
  const world = newWorld();
  const archive = tarOf(world, NEW_VERSION);
  const asked: string[] = [];
  const base = await serve((request, response) => {
    asked.push(request.url ?? "");
    const isInfo = request.url?.startsWith("/cli/") === true;
    response.end(isInfo ? infoFor(request.headers.host) : archive);
  });
  const moduleDir = pinArchive(world, archive);
  const options = optionsIn(world, { downloadBaseUrl: base, moduleDir });
  expect(await provideServerBinary(options)).toEqual({ path: world.cached, source: "download" });
  expect(asked).toEqual(["/cli/v1.8.2?arch=amd64&platform=linux&format=tar.gz", "/archive.tar.gz"]);
  expect(closedSteps(options.events)).toEqual(["path failed", "cache failed", "download ok"]);
});

test("an endpoint that never answers is given up after the stall limit", async () => {
  const base = await serve(() => undefined);
  expect(await downloadIn(newWorld(), base, { stallMs: 200 })).toEqual({
    kind: "failed",
    reason: `${base}/cli/v1.8.2: no progress for 0.2 s`,
  });
});

test("an archive that stops in the middle is given up, one that trickles is not", async () => {
  const world = newWorld();
  const archive = tarOf(world, NEW_VERSION);
  pinArchive(world, archive);
  let isTrickling = false;
  const base = await serve((request, response) => {
    if (request.url?.startsWith("/cli/") === true) {
      response.end(infoFor(request.headers.host));
      return;
    }
    response.setHeader("content-length", archive.length);
    if (!isTrickling) {
      response.write(archive.subarray(0, 10));
      return;
    }
    // Four pieces, together slower than the limit, each well within it.
    const pieces = [0, 1, 2, 3].map((n) =>
      archive.subarray((n * archive.length) / 4, ((n + 1) * archive.length) / 4),
    );
    const timer = setInterval(() => {
      const piece = pieces.shift();
      if (piece !== undefined) response.write(piece);
      if (pieces.length > 0) return;
      clearInterval(timer);
      response.end();
    }, 800);
  });
  expect(await downloadIn(world, base, { stallMs: 3_000 })).toEqual({
    kind: "failed",
    reason: `${base}/archive.tar.gz: no progress for 3 s`,
  });
  isTrickling = true;
  const made = await downloadIn(world, base, { stallMs: 3_000 });
  expect(made.kind).toBe("made");
  expect(made.kind === "made" && existsSync(made.program)).toBe(true);
});

const ANSWERS = [
  { name: "a refusal", status: 403, body: "", wantReason: "HTTP 403" },
  { name: "a page instead of JSON", status: 200, body: "<html>", wantReason: "JSON" },
  { name: "other JSON", status: 200, body: "{}", wantReason: "archiveUrl" },
  {
    name: "a file name that leaves the folder",
    status: 200,
    body: JSON.stringify({ archiveUrl: "http://127.0.0.1/a", fileToExtract: "../../x" }),
    wantReason: "fileToExtract",
  },
  {
    name: "an address of another protocol",
    status: 200,
    body: JSON.stringify({ archiveUrl: "https://127.0.0.1/a", fileToExtract: "x" }),
    wantReason: "is not safe",
  },
];

test.each(ANSWERS)("$name fails at once with the reason", async ({ status, body, wantReason }) => {
  const base = await serve((_request, response) => {
    response.statusCode = status;
    response.end(body);
  });
  const made = await downloadIn(newWorld(), base);
  expect(made.kind === "failed" ? made.reason : "").toContain(wantReason);
});

test("an archive that is none fails with what tar says", async () => {
  const base = await serve((request, response) => {
    response.end(request.url?.startsWith("/cli/") === true ? infoFor(request.headers.host) : "no");
  });
  const world = newWorld();
  pinArchive(world, Buffer.from("no"));
  const made = await downloadIn(world, base);
  expect(made.kind === "failed" ? made.reason : "").toMatch(/^tar exited with \d+ on the archive/);
});

test("an archive with another checksum is not opened, and the pinned build is taken instead", async () => {
  const world = newWorld();
  const archive = tarOf(world, NEW_VERSION);
  const moduleDir = writeModule(world);
  pinArchive(world, Buffer.from("the release"));
  writeGo(world);
  const base = await serve((request, response) => {
    response.end(
      request.url?.startsWith("/cli/") === true ? infoFor(request.headers.host) : archive,
    );
  });
  const options = optionsIn(world, { downloadBaseUrl: base, moduleDir });
  expect(await provideServerBinary(options)).toEqual({ path: world.cached, source: "build" });
  expect(closedSteps(options.events)).toEqual([
    "path failed",
    "cache failed",
    "download failed",
    "build ok",
  ]);
  expect(reasonOf(options.events, "download")).toMatch(
    /^temporal_cli_1\.8\.2_linux_amd64\.tar\.gz has SHA-256 [0-9a-f]{64}, but the pinned one is [0-9a-f]{64};/,
  );
});

test("an archive without a pinned checksum is refused", async () => {
  const world = newWorld();
  pinArchive(world, Buffer.from("linux/x64 only"));
  const base = await serve((request, response) => {
    response.end(request.url?.startsWith("/cli/") === true ? infoFor(request.headers.host) : "x");
  });
  const made = await downloadIn(world, base, { machine: { platform: "linux", arch: "arm64" } });
  expect(made.kind === "failed" ? made.reason : "").toContain(
    "has no checksum of temporal_cli_1.8.2_linux_arm64.tar.gz",
  );
});

test("every platform that the download serves has a pinned checksum", () => {
  const names = linesOf(join(packageRoot(), "tools", "temporal-server", "checksums.txt")).map(
    (line) => line.split("  ")[1],
  );
  expect(names.sort()).toEqual(
    ["darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64"].map(
      (platform) => `temporal_cli_${PINNED_SERVER.cli}_${platform}.tar.gz`,
    ),
  );
});

test("a machine without an official program fails without asking", async () => {
  const made = await downloadIn(newWorld(), "http://127.0.0.1:9", {
    machine: { platform: "freebsd", arch: "x64" },
  });
  expect(made).toEqual({
    kind: "failed",
    reason: "there is no official program for freebsd/x64",
  });
});

test("behind a proxy the reason says that this download does not use it", async () => {
  const world = newWorld();
  const base = await serve((_request, response) => {
    response.statusCode = 502;
    response.end();
  });
  const env = { ...world.env, HTTPS_PROXY: "http://proxy:3128" };
  const made = await downloadIn(world, base, { env });
  expect(made.kind === "failed" ? made.reason : "").toContain("HTTPS_PROXY is set");
});
