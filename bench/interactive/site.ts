/** @file The fleet of `bench interactive`: one job that runs, and a submit service at a port of 127.0.0.1, to which the bench comes with a token. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ServiceAddress } from "../../client/service-request.ts";
import { drawFreePort, LOOPBACK } from "../../workers/server/ports.ts";
import type { BenchRequest } from "../bench.ts";
import { simulatedFleet } from "../live/fleet.ts";
import { openQuietFleet, type BenchWorld } from "../live/world.ts";
import { standInIssuer } from "./stand-in-issuer.ts";

export interface InteractiveSite {
  readonly world: BenchWorld;
  readonly address: ServiceAddress;
  readonly job: string;
}

/** Longer than any part. */
export const IDLE_MS = 600_000;
const USER = "somebody";
const LOOK_MS = 100;
const RUNS_WITHIN_MS = 120_000;

export async function openInteractiveSite(request: BenchRequest): Promise<InteractiveSite> {
  const fleetYaml = simulatedFleet("interactive", 1);
  const world = await openQuietFleet({ request }, fleetYaml);
  try {
    const issuer = standInIssuer();
    const file = join(world.dir, "fleet.yaml");
    const access = [
      "access:",
      "  principals:",
      `    - { name: ${USER}, subject: ${USER}, issuer: company }`,
      `  grants: [{ to: [${USER}], role: operator }]`,
      `  issuers:`,
      `    ${issuer.line}`,
      "",
    ];
    await writeFile(file, `${fleetYaml}${access.join("\n")}`);
    const port = String(await drawFreePort());
    await world.processes.start("api", "cli/main.js", [
      ...["api", "--file", file, "--port", port, "--fleet", world.fleet],
      ...["--isolated", "--address", world.address, "--namespace", "default"],
    ]);
    const { jobId } = await world.orbweaver.submit({
      name: "notebook",
      class: "interactive",
      gang: 1,
      run: { command: ["sleep", "100000"], grace: "1s" },
    });
    await untilRunning(world, jobId);
    const url = new URL(`http://${LOOPBACK}:${port}`);
    return { world, address: { url, token: issuer.tokenOf(USER) }, job: jobId };
  } catch (error) {
    await world.stop();
    throw error;
  }
}

async function untilRunning(world: BenchWorld, job: string): Promise<void> {
  const endMs = performance.now() + RUNS_WITHIN_MS;
  for (;;) {
    world.check();
    const { state } = await world.orbweaver.job(job).view();
    if (state === "running") return;
    if (performance.now() > endMs) throw new Error(`the job of the sessions is ${state}`);
    await sleep(LOOK_MS);
  }
}
