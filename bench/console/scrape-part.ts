/**
 * @file A scrape of a fleet in which everything is at its most: every GPU leased or waited for, every agent tells the use of its GPUs, 200 tenants hold,
 * wait and were granted. How long it takes over HTTP, what of that is processor time, and how many series it has.
 */

import { createFleetMetrics } from "../../console/metrics/fleet-metrics.ts";
import { startHttpConsole } from "../../console/http/server.ts";
import type { GpuUse } from "../../domain/lease/gpu-use.ts";
import { tenantId, type TenantId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { atMost, barOf, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { largeLedgers, type LedgerNow } from "../live/large-ledger.ts";
import { drawFrom, quantile } from "../statistics.ts";

const TENANTS = 200;
const GPUS_PER_HOST = 8;
const TURNS = 20;
const MOST_MS = 100;
const MOST_SERIES = 20_000;
const USED: GpuUse = {
  ...{ use: 0.9, idleMs: 0, watts: 600, tensor: 0.4 },
  ...{ memoryMiB: 50_000, memoryOfMiB: 81_920 },
};

export async function measureScrape(request: BenchRequest): Promise<readonly Bar[]> {
  const gpus = GPUS_PER_HOST * request.size("hosts");
  request.say(`scrape: filling a fleet of ${String(gpus)} GPUs`);
  const { ledger, nowMs } = fullFleet(request, gpus);
  const metrics = createFleetMetrics();
  const plan = { items: [], pending: [], stats: { method: "decide", candidates: 0 } } as const;
  const before: Ledger = { ...ledger, leases: new Map(), nextToken: 1, nextArrival: 0 };
  metrics.fold({ event: { kind: "plan", plan, nowMs }, before, ledger });
  const hosts = ledger.shape.clusters.flatMap((cluster) => cluster.hosts);
  metrics.noteUse(
    new Map(hosts.map(({ id, gpuCount }) => [id, Array.from({ length: gpuCount }, () => USED)])),
  );
  const served = await startHttpConsole({
    ...{ host: "127.0.0.1", port: 0, rule: {}, files: new Map(), streams: new Map() },
    answer: ({ pathname }) =>
      pathname === "/metrics"
        ? metrics.expose(ledger, { nowMs, atMs: nowMs, isReached: true })
        : Promise.resolve(undefined),
  });
  try {
    const wallMs: number[] = [];
    const busyMs: number[] = [];
    let body = "";
    for (let turn = 0; turn <= TURNS; turn += 1) {
      request.interrupted.throwIfAborted();
      const [beganMs, began] = [performance.now(), process.cpuUsage()];
      body = await (await fetch(`http://127.0.0.1:${String(served.port)}/metrics`)).text();
      const { user, system } = process.cpuUsage(began);
      // The first one warms the code up.
      if (turn === 0) continue;
      wallMs.push(performance.now() - beganMs);
      busyMs.push((user + system) / 1_000);
    }
    return barsOf({ body, wallMs, busyMs }, { gpus, waiting: ledger.requests.size });
  } finally {
    await served.close();
  }
}

function fullFleet(request: BenchRequest, gpus: number): LedgerNow {
  const size = { gpus, requests: request.size("waiting") };
  for (const { ledger, nowMs } of largeLedgers(size, drawFrom(request.seed)))
    return { ledger: withTenants(ledger), nowMs };
  throw new Error("a large fleet has no ledger");
}

/** Leases and requests go around all tenants. */
function withTenants(ledger: Ledger): Ledger {
  let next = 0;
  const taken = <Row extends { readonly tenant: TenantId }>(row: Row): Row => {
    next += 1;
    return { ...row, tenant: tenantId(`tenant-${String(next % TENANTS)}`) };
  };
  return {
    ...ledger,
    leases: new Map([...ledger.leases].map(([id, lease]) => [id, taken(lease)])),
    requests: new Map([...ledger.requests].map(([id, waiting]) => [id, taken(waiting)])),
  };
}

function barsOf(
  {
    body,
    wallMs,
    busyMs,
  }: {
    readonly body: string;
    readonly wallMs: readonly number[];
    readonly busyMs: readonly number[];
  },
  { gpus, waiting }: { readonly gpus: number; readonly waiting: number },
): readonly Bar[] {
  const series = body.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const tenants = new Set(body.match(/tenant="[^"]+"/g));
  const size = `${gpus.toLocaleString("en")} GPUs, ${waiting.toLocaleString("en")} waiting jobs, ${String(tenants.size)} tenants`;
  return [
    barOf({
      ...{ id: "scrape-time", unit: "ms", target: atMost(MOST_MS), got: quantile(wallMs, 0.5) },
      note: `over HTTP, median of ${String(wallMs.length)}, the slowest ${quantile(wallMs, 1).toFixed(1)} ms; ${size}`,
    }),
    barOf({
      ...{ id: "scrape-time-cpu", unit: "ms", target: atMost(MOST_MS), got: quantile(busyMs, 0.5) },
      note: `processor time of console and scraper together, median; the most ${quantile(busyMs, 1).toFixed(1)} ms`,
    }),
    barOf({
      ...{ id: "scrape-series", unit: "series", target: atMost(MOST_SERIES), got: series.length },
    }),
  ];
}
