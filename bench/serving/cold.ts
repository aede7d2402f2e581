/**
 * @file Cold requests: a service without a replica is asked, again and again, beside a process that loads the same model by onnxruntime and answers.
 *
 * Everything as a user has it: endpoint, fleet, solver and agent are processes of the product, the host is a simulated one of this machine, the replica
 * serves on its processor. The two take turns, and neither runs while the other is timed. Every answer is held against the plain process's.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { randomFrom } from "../../lib/random.ts";
import { quantile } from "../../lib/quantile.ts";
import { transformerSample } from "../../models/onnx/onnx-samples.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest, BenchTable } from "../bench.ts";
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
import { openJobs, openServiceSite, type ServiceSite } from "./service-site.ts";

const FLEET = `
name: cold
policy: { reserve: 0 }
clusters:
  - name: room
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: c1, gpus: 2, type: L40S }
`;
const SERVICE = `
name: cold
class: inference
gang: 1
model: model.onnx
serve: { scaleToZero: 1s }
run: { grace: 5s }
`;
/** What a cold request may take beyond a plain process. */
const MORE_MS = 1_000;

interface Round {
  readonly coldMs: number;
  readonly plainMs: number;
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
  const site = await openServiceSite({ request, fleetYaml: FLEET, serviceYaml: SERVICE, model });
  const rounds: Round[] = [];
  try {
    const askedFile = join(site.world.dir, "asked.json");
    writeFileSync(askedFile, JSON.stringify(asked));
    // One of each that is not counted: the file comes into the page cache, and the fleet's first job starts what later ones find.
    await onceEach(site, { asked, askedFile });
    for (let number = 1; number <= request.size("cold-rounds"); number += 1) {
      const round = await onceEach(site, { asked, askedFile });
      rounds.push(round);
      request.say(
        `cold ${String(number)}: ${round.coldMs.toFixed(0)} ms, a plain process ${round.plainMs.toFixed(0)} ms`,
      );
    }
  } finally {
    await site.close();
  }
  return { bars: barsOf(rounds), tables: [tableOf(rounds, model.length), spansTable(rounds)] };
}

function barsOf(rounds: readonly Round[]): readonly Bar[] {
  const [coldMs, plainMs] = [rounds.map((each) => each.coldMs), rounds.map((each) => each.plainMs)];
  const beyondMs = quantile(coldMs, 0.9) - quantile(plainMs, 0.9);
  return [
    barOf({
      id: "cold-answers",
      unit: "answers",
      target: exactly(rounds.length),
      got: rounds.filter(({ gap }) => gap <= MOST_GAP).length,
      note: "equal to the plain process's",
    }),
    barOf({
      id: "cold-beyond-plain",
      unit: "ms",
      target: atMost(MORE_MS),
      got: beyondMs,
      note: "p90 of a request to a service without a replica, less p90 of a Node process that loads the model by onnxruntime and answers",
    }),
    barOf({ id: "cold-p90", unit: "ms", target: REPORTED, got: quantile(coldMs, 0.9) }),
    barOf({ id: "plain-p90", unit: "ms", target: REPORTED, got: quantile(plainMs, 0.9) }),
  ];
}

function tableOf(rounds: readonly Round[], bytes: number): BenchTable {
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
        "a plain process",
        rounds.map(({ plainMs }) => plainMs),
      ),
    ],
  };
}

const spansTable = (rounds: readonly Round[]): BenchTable => ({
  title: "Where a cold request's time goes, medians in ms",
  columns: ["part", "median"],
  rows: SPANS.map((name, at) => [
    name,
    quantile(
      rounds.map(({ spansMs }) => spansMs[at] ?? NaN),
      0.5,
    ).toFixed(0),
  ]),
});

interface Asking {
  readonly asked: PlainRequest;
  readonly askedFile: string;
}

async function onceEach(site: ServiceSite, { asked, askedFile }: Asking): Promise<Round> {
  await site.until("the service has no replica", async () => {
    const isIdle = openJobs(await site.world.orbweaver.fleet()).length === 0;
    return isIdle && /replicas\{[^}]*\} [1-9]/.exec(await site.metrics()) === null
      ? true
      : undefined;
  });
  const plainFromMs = performance.now();
  const plain = await plainAnswer(site.model, askedFile);
  const plainMs = performance.now() - plainFromMs;
  const before = site.said().length;
  const askedAtMs = Date.now();
  const coldFromMs = performance.now();
  const { status, text: said } = await site.ask(inferBody(asked));
  const coldMs = performance.now() - coldFromMs;
  const answeredAtMs = Date.now();
  const job = /a replica is wanted: (\S+)/.exec(site.said().slice(before).join("\n"))?.[1];
  const spansMs =
    job === undefined ? [] : await coldSpans(site.world.temporal, job, { askedAtMs, answeredAtMs });
  const gap = status === 200 ? answerGap(plain.data, inferredData(said)) : Infinity;
  return { coldMs, plainMs, gap, spansMs };
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
