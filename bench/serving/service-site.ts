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

/** An endpoint of a service. */
export interface Endpoint {
  /** Answers of the endpoint to a body; whatever their status. */
  readonly ask: (body: string) => Promise<{ readonly status: number; readonly text: string }>;
  readonly metrics: () => Promise<string>;
  /** What the endpoint has said so far. */
  readonly said: () => readonly string[];
}

export interface ServiceSite extends Endpoint {
  readonly world: BenchWorld;
  /** The model's file. */
  readonly model: string;
  readonly until: Until;
  /** Of another service of the same model. */
  readonly openEndpoint: (serviceYaml: string) => Promise<Endpoint>;
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
  const endpoints: ChildProcess[] = [];
  const heard: string[] = [];
  const close = async (): Promise<void> => {
    for (const endpoint of endpoints) await endNow(endpoint);
    await world.stop();
  };
  const openEndpoint = async (yaml: string): Promise<Endpoint> => {
    const file = join(world.dir, `service-${String(endpoints.length)}.yaml`);
    writeFileSync(file, yaml);
    const place = ["--isolated", "--address", world.address, "--fleet", world.fleet];
    const endpoint = spawn(
      process.execPath,
      [commandLine(), ...["serve", "replicas", file, "--port", "0", "--json", ...place]],
      { env: { ...request.env, NO_COLOR: "1" }, stdio: ["ignore", "pipe", "pipe"] },
    );
    endpoints.push(endpoint);
    const said: string[] = [];
    const url = await listening(endpoint, (line) => {
      said.push(line);
      heard.push(line);
    });
    return {
      said: () => said,
      async ask(body) {
        const response = await fetch(new URL("/v2/models/model/infer", url), {
          method: "POST",
          body,
        });
        return { status: response.status, text: await response.text() };
      },
      metrics: async () => await (await fetch(new URL("/metrics", url))).text(),
    };
  };
  try {
    await world.startRole("solver");
    const model = join(world.dir, "model.onnx");
    writeFileSync(model, options.model);
    return {
      ...(await openEndpoint(serviceYaml)),
      ...{ world, model, openEndpoint, close },
      until: untilIn(world, () => `; ${heard.slice(-5).join("; ")}`),
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Resolves with its address; what it says later is noted. */
async function listening(endpoint: ChildProcess, onSaid: (line: string) => void): Promise<string> {
  const last: string[] = [];
  const { stdout, stderr } = endpoint;
  if (stdout === null || stderr === null) throw new Error("the endpoint has no output");
  createInterface({ input: stderr }).on("line", (line) => {
    last.push(line);
    onSaid(line);
  });
  let document = "";
  for await (const line of createInterface({ input: stdout })) {
    document += line;
    const url = /"url":\s*"([^"]+)"/.exec(document)?.[1];
    if (url !== undefined) return url;
  }
  throw new Error(`the endpoint has ended; it said: ${last.slice(-5).join("; ")}`);
}

/** Jobs of the service that have or want GPUs. */
export const openJobs = ({ leases, requests }: Ledger): readonly string[] => [
  ...[...leases.values()].map(({ jobId }) => String(jobId)),
  ...[...requests.keys()].map(String),
];
