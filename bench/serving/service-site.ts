/** @file A service of an ONNX model on a live fleet, as its users have it: `orbweaver serve replicas` in front of jobs on a simulated host. */

import { spawn, type ChildProcess } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { commandLine } from "../../workers/server/package-root.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { BenchRequest } from "../bench.ts";
import { endNow } from "../live/processes.ts";
import { untilIn, type Until } from "../live/until.ts";
import { openQuietFleet, type BenchWorld } from "../live/world.ts";

export interface ServiceSite {
  readonly world: BenchWorld;
  /** The model's file. */
  readonly model: string;
  /** Answers of the endpoint to a body; whatever their status. */
  readonly ask: (body: string) => Promise<{ readonly status: number; readonly text: string }>;
  readonly metrics: () => Promise<string>;
  readonly until: Until;
  /** What the endpoint has said so far. */
  readonly said: () => readonly string[];
  readonly close: () => Promise<void>;
}

export interface ServiceSiteOptions {
  readonly request: BenchRequest;
  readonly fleetYaml: string;
  /** Of one replica, with the keys of a service; the model is `model.onnx`. */
  readonly serviceYaml: string;
  readonly model: Uint8Array;
}

export async function openServiceSite(options: ServiceSiteOptions): Promise<ServiceSite> {
  const { request, fleetYaml, serviceYaml } = options;
  const world = await openQuietFleet({ request }, fleetYaml);
  const said: string[] = [];
  let endpoint: ChildProcess | undefined;
  const close = async (): Promise<void> => {
    if (endpoint !== undefined) await endNow(endpoint);
    await world.stop();
  };
  try {
    await world.startRole("solver");
    const model = join(world.dir, "model.onnx");
    writeFileSync(model, options.model);
    const file = join(world.dir, "service.yaml");
    writeFileSync(file, serviceYaml);
    const place = ["--isolated", "--address", world.address, "--fleet", world.fleet];
    endpoint = spawn(
      process.execPath,
      [
        commandLine(),
        ...["serve", "replicas", file, "--port", "0", "--json", ...place],
      ],
      { env: { ...request.env, NO_COLOR: "1" }, stdio: ["ignore", "pipe", "pipe"] },
    );
    const url = await listening(endpoint, said);
    return {
      world,
      model,
      said: () => said,
      async ask(body) {
        const response = await fetch(new URL("/v2/models/model/infer", url), {
          method: "POST",
          body,
        });
        return { status: response.status, text: await response.text() };
      },
      metrics: async () => await (await fetch(new URL("/metrics", url))).text(),
      until: untilIn(world, () => `; ${said.slice(-5).join("; ")}`),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Resolves with its address; what it says later is noted. */
async function listening(endpoint: ChildProcess, said: string[]): Promise<string> {
  const { stdout, stderr } = endpoint;
  if (stdout === null || stderr === null) throw new Error("the endpoint has no output");
  createInterface({ input: stderr }).on("line", (line) => said.push(line));
  let document = "";
  for await (const line of createInterface({ input: stdout })) {
    document += line;
    const url = /"url":\s*"([^"]+)"/.exec(document)?.[1];
    if (url !== undefined) return url;
  }
  throw new Error(`the endpoint has ended; it said: ${said.slice(-5).join("; ")}`);
}

/** Jobs of the service that have or want GPUs. */
export const openJobs = ({ leases, requests }: Ledger): readonly string[] => [
  ...[...leases.values()].map(({ jobId }) => String(jobId)),
  ...[...requests.keys()].map(String),
];
