/**
 * @file A fleet whose processes come from two releases: the one before rules 2, and this one.
 *
 * Every process is the compiled program of its release, started as an operator would start it.
 */

import { Client, Connection } from "@temporalio/client";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import type { JobFile, OrbweaverClient } from "../../client/index.ts";
import { orbweaverCodecs } from "../../workers/codec/index.ts";
import { withoutTemporal } from "../../workers/server/index.ts";
import { removeFolder } from "../support/remove-folder.ts";
import { startTestServer, testServerBinary } from "../support/test-server.ts";
import { fleetOf, readyLine, ROOT } from "../support/world.ts";
import { provideOldRelease } from "./old-release.mjs";

export type Release = "old" | "new";

export const CONTROL = ["fleet", "jobs", "solver"] as const;
export const CLUSTERS = ["alpha", "beta"] as const;

const FLEET_YAML = `
name: two
clusters:
${CLUSTERS.map(
  (name) => `
  - name: ${name}
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "h[1-2]", gpus: 4, type: H100 }
`,
).join("")}`;

export interface TwoReleases {
  readonly fleet: string;
  readonly from: "commit" | "packed";
  /** Folder of the old release. */
  readonly oldRoot: string;
  /** For files that jobs write. */
  readonly dir: string;
  readonly temporal: Client;
  start(release: Release, roles: readonly string[]): Promise<void>;
  stop(roles: readonly string[]): Promise<void>;
  /** The process that serves a role, or served it last. */
  pidOf(role: string): number;
  submit(release: Release, job: JobFile): Promise<string>;
  cli(
    ...words: readonly string[]
  ): Promise<{ readonly code: number | null; readonly said: string }>;
  end(): Promise<void>;
}

/** Starts the fleet's workflow as the old release does, on a server of its own, and no process yet. */
export async function startTwoReleases(): Promise<TwoReleases> {
  const old = provideOldRelease();
  const dir = mkdtempSync(path.join(tmpdir(), "orbweaver-upgrade-"));
  const { address, stop: stopServer } = await startTestServer(
    path.join(dir, "server"),
    await testServerBinary(),
  );
  const fleet = "two";
  const roots: Readonly<Record<Release, string>> = { old: old.root, new: ROOT };
  const connection = await Connection.connect({ address });
  const temporal = new Client({
    connection,
    dataConverter: { payloadCodecs: orbweaverCodecs({}) },
  });
  const env = {
    ...withoutTemporal(process.env),
    ORBWEAVER_STATE_DIR: path.join(dir, "state"),
    ORBWEAVER_FLEET: fleet,
    TEMPORAL_ADDRESS: address,
    TEMPORAL_CONFIG_FILE: path.join(dir, "no-such-profile.toml"),
    NO_COLOR: "1",
  };
  const running = new Map<string, ChildProcess>();
  let isOver = false;
  const main = (release: Release): string => path.join(roots[release], "dist/cli/main.js");
  const loaded = async <T>(release: Release, file: string): Promise<T> =>
    (await import(pathToFileURL(path.join(roots[release], "dist", file)).href)) as T; // our own build
  const { startFleet } = await loaded<typeof import("../../cli/up/fleet-start.ts")>(
    "old",
    "cli/up/fleet-start.js",
  );
  await startFleet(temporal, { name: fleet, fleet: fleetOf(FLEET_YAML), detailsHash: undefined });
  const stopOne = async (role: string): Promise<void> => {
    const child = running.get(role);
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGTERM");
    await gone;
  };
  return {
    fleet,
    from: old.from,
    oldRoot: old.root,
    dir,
    temporal,
    async start(release, roles) {
      // A step that was given up may still be on its way.
      if (isOver) throw new Error("the play is over");
      await Promise.all(
        roles.map(async (role) => {
          const isControl = CONTROL.some((each) => each === role);
          // Jobs of the former release are not signed.
          const trust = release === "old" ? [] : ["--trust", "namespace"];
          const words = isControl ? [role] : ["agent", "--cluster", role, ...trust];
          const child = spawn(process.execPath, [main(release), "worker", "--role", ...words], {
            env,
            stdio: ["ignore", "ignore", "pipe"],
          });
          running.set(role, child);
          await readyLine(`${release} ${role}`, child);
        }),
      );
    },
    async stop(roles) {
      await Promise.all(roles.map(stopOne));
    },
    pidOf: (role) => running.get(role)?.pid ?? 0,
    async submit(release, job) {
      const library = await loaded<typeof import("../../client/index.ts")>(
        release,
        "client/index.js",
      );
      const client: OrbweaverClient = new library.OrbweaverClient(temporal, { fleet });
      return (await client.submit(job)).jobId;
    },
    async cli(...words) {
      const child = spawn(process.execPath, [main("new"), ...words], {
        env,
        stdio: ["ignore", "pipe", "pipe"],
      });
      let said = "";
      child.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()));
      child.stderr.on("data", (chunk: Buffer) => process.stderr.write(chunk));
      const [code] = (await once(child, "close")) as [number | null];
      return { code, said };
    },
    async end() {
      isOver = true;
      for (const child of running.values()) child.kill("SIGKILL");
      await connection.close();
      await stopServer();
      old.remove();
      removeFolder(dir);
    },
  };
}
