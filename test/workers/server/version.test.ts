import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { userCacheFolder } from "../../../workers/server/cache.ts";
import { withoutTemporal } from "../../../workers/server/environment.ts";
import { packageRoot } from "../../../workers/server/package-root.ts";
import { checkVersionText } from "../../../workers/server/version.ts";
import { newWorld } from "./fakes.ts";

const VERSIONS = [
  { text: "temporal version 1.8.2 (Server 1.31.2, UI 2.50.1)", want: "fits" },
  { text: "temporal version 0.0.0-DEV (Server 1.31.0, UI 2.50.1)", want: "fits" },
  { text: "temporal version 2.0.0 (Server 2.1.0, UI 3.0.0)", want: "fits" },
  { text: "temporal version 1.8.2", want: "fits" },
  { text: "temporal version 1.10.0", want: "fits" },
  { text: "temporal version 1.8.1", want: "refused" },
  { text: "temporal version 1.9.0 (Server 1.30.9, UI 2.50.1)", want: "refused" },
  { text: "command not found", want: "refused" },
  { text: "", want: "refused" },
] as const;

test.each(VERSIONS)('"$text": $want', ({ text, want }) => {
  expect(checkVersionText("temporal", text).kind).toBe(want);
});

const CACHES = [
  { platform: "linux", env: { HOME: "/h" }, want: "/h/.cache" },
  { platform: "linux", env: { HOME: "/h", XDG_CACHE_HOME: "/x" }, want: "/x" },
  { platform: "linux", env: { HOME: "/h", XDG_CACHE_HOME: "x" }, want: "/h/.cache" },
  { platform: "darwin", env: { HOME: "/h", XDG_CACHE_HOME: "/x" }, want: "/h/Library/Caches" },
  { platform: "win32", env: { HOME: "/h", LOCALAPPDATA: "/l" }, want: "/l" },
  { platform: "linux", env: { HOME: "/h", ORBWEAVER_CACHE_DIR: "/o" }, want: "/o" },
] as const;

test.each(CACHES)("the cache folder on $platform with $env is $want", ({ platform, env, want }) => {
  expect(userCacheFolder(env, platform)).toBe(want);
});

test("children see none of the user's Temporal settings and all else", () => {
  const env = { TEMPORAL_ADDRESS: "prod", temporal_profile: "p", PATH: "/bin", TEMPO: "1" };
  expect(withoutTemporal(env)).toEqual({ PATH: "/bin", TEMPO: "1" });
});

test("the package's root is found from the source tree and from the compiled one", () => {
  const { folder } = newWorld();
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "orbweaver" }));
  for (const tree of ["workers/server", "dist/workers/server"]) {
    mkdirSync(join(folder, tree), { recursive: true });
    // A package.json of another name on the way up is not ours.
    writeFileSync(join(folder, tree, "package.json"), JSON.stringify({ type: "module" }));
    expect(packageRoot(pathToFileURL(join(folder, tree, "x.js")).href)).toBe(folder);
  }
});
