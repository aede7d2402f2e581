/**
 * @file Cold requests: a service without a replica is asked, again and again, beside a process that loads the same model by onnxruntime and answers.
 *
 * Everything as a user has it: endpoint, fleet, solver and agent are processes of the product, the host is a simulated one of this machine, the replica
 * serves on its processor. The two take turns, and neither runs while the other is timed. Every answer is held against the plain process's.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { randomFrom } from "../../lib/random.ts";
import { quantile } from "../../lib/quantile.ts";
import { transformerSample } from "../../models/onnx/onnx-samples.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { atLeast, atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest, BenchTable } from "../bench.ts";
import { leftProcesses } from "../live/left-processes.ts";
import {
  answerGap,
  drawnRequest,
  inferBody,
  inferredData,
  MOST_GAP,
  type PlainAnswer,
  type PlainRequest,
} from "./cold-request.ts";
import { coldSpans, SPANS } from "./cold-spans.ts";
import { PAIR, PAIR_HOSTS, whereKept } from "./where-kept.ts";
import { openJobs, openServiceSite, type Endpoint, type ServiceSite } from "./service-site.ts";

/** Of hosts of which each keeps so much of the weights of served models. */
const clusterOf = (name: string, hosts: readonly string[], weights: string): string => `
  - name: ${name}
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
${hosts.map((host) => `      - { name: ${host}, gpus: 2, type: L40S, weights: ${weights} }`).join("\n")}`;
const FLEET = `
name: cold
policy: { reserve: 0 }
clusters:${clusterOf("room", ["c1"], "1 GiB")}${clusterOf("bare", ["c2"], "0 GiB")}${clusterOf(PAIR, PAIR_HOSTS, "1 GiB")}
`;
/** The host of one cluster keeps weights, that of the other none. */
const serviceIn = (cluster: "room" | "bare"): string => `
name: cold-${cluster}
class: inference
gang: 1
model: model.onnx
serve: { scaleToZero: 1s }
constraints: { clusters: [${cluster}] }
run: { grace: 5s }
`;
/** What a cold request may take beyond a plain process. */
const MORE_MS = 1_000;
/** What weights that a host keeps must save of a replica's processor time. */
const LEAST_GAIN = 1.2;

interface Round {
  readonly coldMs: number;
  readonly plainMs: number;
  /** Processor time of the replica and its supervisor until the answer, and of the plain process; in ticks of 10 ms. */
  readonly replicaCpuMs: number;
  /** The part of it that the kernel took, most of it to give memory that nobody has touched yet. */
  readonly replicaKernelMs: number;
  readonly plainCpuMs: number;
  readonly gap: number;
  /** Of `SPANS`. */
  readonly spansMs: readonly number[];
}

export async function coldRequests(
  request: BenchRequest,
): Promise<{ readonly bars: readonly Bar[]; readonly tables: readonly BenchTable[] }> {
  const [width, blocks] = [request.size("cold-width"), request.size("cold-blocks")];
  const model = transformerSample({ blocks, width, heads: 8, seed: request.seed });
  const asked = drawnRequest(randomFrom(request.seed, "cold-request"), { length: 4, width });
  const serviceYaml = serviceIn("room");
  const site = await openServiceSite({ request, fleetYaml: FLEET, serviceYaml, model });
  const rounds: Round[] = [];
  const bare: Round[] = [];
  let byWeights: Bar;
  try {
    const endpoint = await site.openEndpoint(serviceIn("bare"));
    const askedFile = join(site.world.dir, "asked.json");
    writeFileSync(askedFile, JSON.stringify(asked));
    // One of each that is not counted: the file comes into the page cache, and the fleet's first job starts what later ones find.
    await onceEach(site, { asked, askedFile, endpoint: site });
    await onceEach(site, { asked, askedFile, endpoint });
    for (let number = 1; number <= request.size("cold-rounds"); number += 1) {
      const round = await onceEach(site, { asked, askedFile, endpoint: site });
      rounds.push(round);
      const without = await onceEach(site, { asked, askedFile, endpoint });
      bare.push(without);
      request.say(
        `cold ${String(number)}: ${round.coldMs.toFixed(0)} ms, ${without.coldMs.toFixed(0)} ms where the host keeps no weights, a plain process ${round.plainMs.toFixed(0)} ms`,
      );
    }
    byWeights = await whereKept(site, inferBody(asked));
  } finally {
    await site.close();
  }
  return {
    bars: [...barsOf(rounds, bare), byWeights],
    tables: [tableOf(rounds, { bare, bytes: model.length }), spansTable(rounds, bare)],
  };
}

function barsOf(rounds: readonly Round[], bare: readonly Round[]): readonly Bar[] {
  const [coldMs, plainMs] = [rounds.map((each) => each.coldMs), rounds.map((each) => each.plainMs)];
  const beyondMs = quantile(coldMs, 0.9) - quantile(plainMs, 0.9);
  return [
    barOf({
      id: "cold-answers",
      unit: "answers",
      target: exactly(rounds.length + bare.length),
      got: [...rounds, ...bare].filter(({ gap }) => gap <= MOST_GAP).length,
      note: "equal to the plain process's",
    }),
    barOf({
      id: "cold-beyond-plain",
      unit: "ms",
      target: atMost(MORE_MS),
      got: beyondMs,
      note: "p90 of a request to a service without a replica, less p90 of a Node process that loads the model by onnxruntime and answers",
    }),
    barOf({
      id: "cold-without-weights",
      unit: "×",
      target: atLeast(LEAST_GAIN),
      got: quantile(cpuOf(bare), 0.5) / quantile(cpuOf(rounds), 0.5),
      note: "processor time of a replica until its answer, medians: on a host that keeps no weights ÷ on one that does",
    }),
    barOf({ id: "cold-p90", unit: "ms", target: REPORTED, got: quantile(coldMs, 0.9) }),
    barOf({ id: "plain-p90", unit: "ms", target: REPORTED, got: quantile(plainMs, 0.9) }),
  ];
}

const cpuOf = (rounds: readonly Round[]): readonly number[] =>
  rounds.map(({ replicaCpuMs }) => replicaCpuMs);
const kernelOf = (rounds: readonly Round[]): readonly number[] =>
  rounds.map(({ replicaKernelMs }) => replicaKernelMs);

function tableOf(
  rounds: readonly Round[],
  { bare, bytes }: { readonly bare: readonly Round[]; readonly bytes: number },
): BenchTable {
  const row = (name: string, ms: readonly number[]): readonly string[] => [
    name,
    ...[0.5, 0.9, 1].map((share) => quantile(ms, share).toFixed(0)),
  ];
  return {
    title: `From a request to its answer, a model of ${(bytes / 2 ** 20).toFixed(0)} MiB, ms`,
    columns: ["way", "median", "p90", "longest"],
    rows: [
      row(
        "a service without a replica",
        rounds.map(({ coldMs }) => coldMs),
      ),
      row(
        "the same, where the host keeps no weights",
        bare.map(({ coldMs }) => coldMs),
      ),
      row(
        "a plain process",
        rounds.map(({ plainMs }) => plainMs),
      ),
      row("processor time: the replica", cpuOf(rounds)),
      row("of it in the kernel", kernelOf(rounds)),
      row("processor time: without weights", cpuOf(bare)),
      row("of it in the kernel", kernelOf(bare)),
      row(
        "processor time: a plain process",
        rounds.map(({ plainCpuMs }) => plainCpuMs),
      ),
    ],
  };
}

const spansTable = (rounds: readonly Round[], bare: readonly Round[]): BenchTable => ({
  title: "Where a cold request's time goes, medians in ms",
  columns: ["part", "median", "without weights"],
  rows: SPANS.map((name, at) => [
    name,
    ...[rounds, bare].map((way) =>
      quantile(
        way.map(({ spansMs }) => spansMs[at] ?? NaN),
        0.5,
      ).toFixed(0),
    ),
  ]),
});

interface Asking {
  readonly asked: PlainRequest;
  readonly askedFile: string;
  readonly endpoint: Endpoint;
}

async function onceEach(site: ServiceSite, { asked, askedFile, endpoint }: Asking): Promise<Round> {
  await site.until("the service has no replica", async () => {
    const isIdle = openJobs(await site.world.orbweaver.fleet()).length === 0;
    return isIdle && /replicas\{[^}]*\} [1-9]/.exec(await endpoint.metrics()) === null
      ? true
      : undefined;
  });
  const plainFromMs = performance.now();
  const plain = await plainAnswer(site.model, askedFile);
  const plainMs = performance.now() - plainFromMs;
  const before = endpoint.said().length;
  const askedAtMs = Date.now();
  const coldFromMs = performance.now();
  const { status, text: said } = await endpoint.ask(inferBody(asked));
  const coldMs = performance.now() - coldFromMs;
  const answeredAtMs = Date.now();
  const { cpuMs: replicaCpuMs, kernelMs: replicaKernelMs } = launchedCpu(site.world.dir);
  const job = /a replica is wanted: (\S+)/.exec(endpoint.said().slice(before).join("\n"))?.[1];
  const spansMs =
    job === undefined ? [] : await coldSpans(site.world.temporal, job, { askedAtMs, answeredAtMs });
  const gap = status === 200 ? answerGap(plain.data, inferredData(said)) : Infinity;
  const plainCpuMs = plain.cpuMs;
  return { coldMs, plainMs, replicaCpuMs, replicaKernelMs, plainCpuMs, gap, spansMs };
}

/** Ticks of the kernel's clock in a second, wherever Node runs on Linux. */
const TICKS = 100;

/** Processor time so far of all processes of launches below the folder; NaN where none is found. */
function launchedCpu(folder: string): { readonly cpuMs: number; readonly kernelMs: number } {
  const found = leftProcesses(folder).flatMap(({ pid }) => {
    try {
      // Behind the program's name, which may hold anything: user time is the 12th word, system time the 13th.
      const words = readFileSync(`/proc/${String(pid)}/stat`, "utf8")
        .split(") ")
        .at(-1)
        ?.split(" ");
      return [{ user: Number(words?.[11]), kernel: Number(words?.[12]) }];
    } catch {
      return [];
    }
  });
  if (found.length === 0) return { cpuMs: NaN, kernelMs: NaN };
  const kernel = found.reduce((all, each) => all + each.kernel, 0);
  const user = found.reduce((all, each) => all + each.user, 0);
  return { cpuMs: ((user + kernel) * 1e3) / TICKS, kernelMs: (kernel * 1e3) / TICKS };
}

async function plainAnswer(model: string, askedFile: string): Promise<PlainAnswer> {
  const program = join(packageRoot(), "dist/bench/serving/plain-process.js");
  const child = spawn(process.execPath, [program, model, askedFile], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const said = text(child.stdout);
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`the plain process ended with ${String(code)}`);
  return JSON.parse(await said) as PlainAnswer;
}
