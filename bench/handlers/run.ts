/** @file Times the tasks of a fleet and of an empty handler in turn, and judges the fleet's beside the other's. */

import { bundleWorkflowCode } from "@temporalio/worker";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { clusterId, hostId } from "../../domain/values/ids.ts";
import { gib, watts } from "../../domain/values/units.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { atMost, barOf, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";
import { quantile } from "../statistics.ts";
import { openSandbox, type Sandbox, type TaskCost } from "./sandbox.ts";

const LONGEST_MS = 4_000;
const MOST_TIMES = 2;

export async function runHandlers(request: BenchRequest): Promise<BenchAnswer> {
  const { say } = request;
  const signals = request.size("signals");
  const rounds = request.size("rounds");
  say("bundling the empty handler");
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(packageRoot(), "dist/bench/handlers/empty-handler.js"),
    logger: SILENT,
  });
  const rival = await openSandbox(code);
  const product = await openSandbox(
    await readFile(join(packageRoot(), "dist/workflow-bundle.js"), "utf8"),
  );
  const kinds = [
    ["junk", (at: number) => ({ kind: "junk", at, filler: "x".repeat(request.size("bytes")) })],
    ["requests", smallRequest],
  ] as const;
  const rows: Row[] = [];
  for (const [kind, entryOf] of kinds) {
    const values = Array.from({ length: signals }, (_, at) => [entryOf(at)]);
    const fleet: TaskCost[] = [];
    const empty: TaskCost[] = [];
    for (let round = 1; round <= rounds; round += 1) {
      say(`${signals} signals of ${kind}, round ${round} of ${rounds}`);
      fleet.push(await timeFleet(product, values));
      empty.push(await timeEmpty(rival, values));
    }
    rows.push({ kind, fleet, empty });
  }
  return { bars: rows.flatMap((row) => barsOf(row, signals)) };
}

interface Row {
  readonly kind: string;
  readonly fleet: readonly TaskCost[];
  readonly empty: readonly TaskCost[];
}

function barsOf({ kind, fleet, empty }: Row, signals: number): readonly Bar[] {
  const ours = quantile(
    fleet.map(({ processorMs }) => processorMs),
    0.5,
  );
  const theirs = quantile(
    empty.map(({ processorMs }) => processorMs),
    0.5,
  );
  const note = `${Math.round(ours)} ms of the processor; an empty handler ${Math.round(theirs)} ms; ${signals} signals`;
  return [
    barOf({
      id: `task of ${kind} ÷ empty handler`,
      unit: "×",
      target: atMost(MOST_TIMES),
      got: ours / theirs,
      note,
    }),
    barOf({
      id: `longest task of ${kind}`,
      unit: "ms",
      target: atMost(LONGEST_MS),
      got: Math.max(...fleet.map(({ wallMs }) => wallMs)),
      note: "wall time, whatever else the machine does",
    }),
  ];
}

const timeEmpty = (sandbox: Sandbox, values: readonly unknown[]): Promise<TaskCost> =>
  sandbox.time({ workflowType: "emptyHandler", input: [], signal: "inbox", values });

const timeFleet = (sandbox: Sandbox, values: readonly unknown[]): Promise<TaskCost> =>
  sandbox.time({
    workflowType: "fleet",
    input: [{ name: "bench", ledger: packLedger(emptyLedger(SHAPE)) }],
    signal: "inbox",
    values,
  });

const SHAPE: FleetShape = {
  clusters: [
    {
      id: clusterId("eu"),
      site: "eu",
      jurisdiction: "EU",
      isSimulated: true,
      hosts: [
        {
          id: hostId("eu", "h1"),
          gpuType: "H100",
          gpuCount: 8,
          gpuMemoryGiB: gib(80),
          gpuWatts: watts(700),
        },
      ],
    },
  ],
  links: [],
  tenants: [],
};

const smallRequest = (at: number): object => ({
  kind: "request",
  request: {
    jobId: `job-${at}`,
    runId: `run-${at}`,
    seq: 1,
    name: "small",
    tenant: "bench",
    class: "training",
    priority: 0,
    gang: { gpus: 1, min: 1, timeoutMs: 30_000 },
    constraints: { isSameHost: false, isSameFabric: false },
    submittedAtMs: 1_700_000_000_000,
    requestedAtMs: 1_700_000_000_000,
  },
});

const quiet = (): void => undefined;
const SILENT = { log: quiet, trace: quiet, debug: quiet, info: quiet, warn: quiet, error: quiet };
