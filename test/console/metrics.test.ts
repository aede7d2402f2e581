/** @file Metrics against the ledger's own word, over the recorded histories: what is counted, and what a scrape says. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import type { Answer } from "../../console/http/server.ts";
import type { Folded } from "../../console/follow/fleet-run.ts";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import { createFleetMetrics } from "../../console/metrics/fleet-metrics.ts";
import { judgedEstimates } from "../../console/metrics/judged-estimates.ts";
import { MOST_TENANTS, OTHER_TENANTS, tenantLabels } from "../../console/metrics/labels.ts";
import { gpuCountOf } from "../../domain/lease/lease.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import { drainedMask } from "../../scheduling/ledger/rules/gpu-drains.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { KeptEstimate } from "../../scheduling/ledger/rules/start-estimates.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { foldedOf } from "../support/recorded-fleet.ts";

const FOLDER = path.join(import.meta.dirname, "../histories");
const files = readdirSync(FOLDER).filter((file) => /^fleet\..*\.json$/.test(file));
const codecs = createConverters().worker.payloadCodecs ?? [];

async function followed(
  file: string,
): Promise<{ readonly folded: readonly Folded[]; readonly ledger: Ledger }> {
  const history = historyFromJSON(JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")));
  const events = history.events ?? [];
  const run = await openFollowedRun("run-1", events[0] ?? {}, codecs);
  const folded = await foldedOf(run, events);
  return { folded, ledger: run.ledger() };
}

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** By the grammar of OpenMetrics, as far as we write it. */
function samplesOf({ type, body }: Answer): readonly Sample[] {
  const text = String(body);
  expect(type).toMatch(/^application\/openmetrics-text; version=1\.0\.0/);
  expect(text.endsWith("# EOF\n")).toBe(true);
  return text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [, name = "", labels = "", value = ""] =
        /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      expect(name, line).not.toBe("");
      const pairs = [...labels.matchAll(/([a-z_]+)="([^"]*)"/g)];
      return {
        name,
        labels: Object.fromEntries(pairs.map(([, key = "", text = ""]) => [key, text])),
        value: Number(value),
      };
    });
}

const sumOf = (
  samples: readonly Sample[],
  wanted: string,
  labels: Readonly<Record<string, string>> = {},
): number =>
  samples
    .filter(({ name }) => name === wanted)
    .filter((each) => Object.entries(labels).every(([key, text]) => each.labels[key] === text))
    .reduce((sum, { value }) => sum + value, 0);

describe("the metrics of a fleet", () => {
  it.each(files)("count what the fleet of %s has done", async (file) => {
    const { folded, ledger } = await followed(file);
    const metrics = createFleetMetrics();
    for (const one of folded) metrics.fold(one);
    const samples = samplesOf(
      await metrics.expose(ledger, { nowMs: Date.now(), atMs: 5_000, isReached: true }),
    );
    const granted = folded.flatMap(({ event, before }) => {
      const applied = apply(before, event);
      return applied.granted.flatMap((id) => applied.ledger.leases.get(id) ?? []);
    });
    expect(sumOf(samples, "orbweaver_grants_total")).toBe(granted.length);
    expect(sumOf(samples, "orbweaver_granted_gpus_total")).toBe(
      granted.reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0),
    );
    expect(sumOf(samples, "orbweaver_wait_seconds_count", { phase: "queue" })).toBe(granted.length);
    expect(sumOf(samples, "orbweaver_wait_seconds_count", { phase: "quota" })).toBe(granted.length);
    expect(sumOf(samples, "orbweaver_wait_seconds_sum", { phase: "quota" })).toBeLessThanOrEqual(
      sumOf(samples, "orbweaver_wait_seconds_sum", { phase: "queue" }),
    );
    expect(sumOf(samples, "orbweaver_tenant_wait_seconds_count")).toBe(granted.length);
    expect(sumOf(samples, "orbweaver_tenant_wait_seconds_bucket", { le: "+Inf" })).toBe(
      granted.length,
    );
    const evicted = folded.flatMap(({ before, ledger: after }) =>
      [...after.leases.values()].filter(
        ({ id, eviction }) =>
          eviction !== undefined &&
          before.leases.get(id) !== undefined &&
          before.leases.get(id)?.eviction === undefined,
      ),
    );
    expect(sumOf(samples, "orbweaver_preemptions_total")).toBe(evicted.length);
    expect(sumOf(samples, "orbweaver_gpu_seconds_lost_total")).toBeCloseTo(
      evicted.reduce((sum, { eviction }) => sum + (eviction?.lostGpuSeconds ?? 0), 0),
    );
    const plans = folded.filter(({ event }) => event.kind === "plan");
    expect(sumOf(samples, "orbweaver_cycles_total")).toBe(plans.length);
    expect(sumOf(samples, "orbweaver_cycle_seconds_count")).toBe(plans.length);
    const parts = (part: string): number =>
      sumOf(samples, "orbweaver_cycle_part_seconds_count", { part });
    expect(parts("decide")).toBe(plans.length);
    expect(parts("apply")).toBeLessThanOrEqual(plans.length);
    expect(parts("apply") > 0).toBe(plans.length > 0);
    expect(parts("deliver")).toBe(folded.filter(({ event }) => event.kind === "delivered").length);
    const freed = folded.flatMap(({ before, ledger: after, event }) =>
      [...before.leases.values()].flatMap(({ id, eviction }) =>
        eviction === undefined || after.leases.has(id) ? [] : event.nowMs - eviction.atMs,
      ),
    );
    expect(sumOf(samples, "orbweaver_eviction_seconds_count")).toBe(freed.length);
    // From the order, which is no later than its delivery.
    const sinceDelivery = freed.reduce((sum, lengthMs) => sum + lengthMs, 0) / 1_000;
    expect(sumOf(samples, "orbweaver_eviction_seconds_sum")).toBeGreaterThanOrEqual(
      sinceDelivery - 1e-9,
    );
    expect(sumOf(samples, "orbweaver_history_reached")).toBe(1);
    expect(sumOf(samples, "orbweaver_history_last_event_timestamp_seconds")).toBe(5);
  });

  it("call a drained GPU that no job holds unusable", async () => {
    const { ledger } = await followed("fleet.gpu-drained.json");
    const drained = [...ledger.hosts.values()].reduce(
      (sum, status) => sum + popCount(drainedMask(status)),
      0,
    );
    const at = { nowMs: Date.now(), atMs: 0, isReached: false };
    const samples = samplesOf(await createFleetMetrics().expose(ledger, at));
    expect(drained).toBeGreaterThan(0);
    expect(ledger.leases.size).toBe(0);
    expect(sumOf(samples, "orbweaver_gpus", { state: "unusable" })).toBe(drained);
  });

  it.each(files)(
    "put every GPU, host and job of %s into one series at every instant",
    async (file) => {
      const { folded } = await followed(file);
      const metrics = createFleetMetrics();
      for (const { ledger } of folded) {
        const samples = samplesOf(
          await metrics.expose(ledger, { nowMs: Date.now(), atMs: 0, isReached: false }),
        );
        const hosts = ledger.shape.clusters.flatMap((cluster) => cluster.hosts);
        expect(sumOf(samples, "orbweaver_gpus")).toBe(
          hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0),
        );
        expect(sumOf(samples, "orbweaver_hosts")).toBe(hosts.length);
        expect(sumOf(samples, "orbweaver_pending_jobs")).toBe(ledger.requests.size);
        expect(sumOf(samples, "orbweaver_leases")).toBe(ledger.leases.size);
        for (const kind of ["held", "due"])
          expect(sumOf(samples, "orbweaver_flow_gpus", { kind })).toBeLessThanOrEqual(
            sumOf(samples, "orbweaver_gpus"),
          );
        expect(sumOf(samples, "orbweaver_tenant_gpus", { kind: "due" })).toBe(
          sumOf(samples, "orbweaver_flow_gpus", { kind: "due" }),
        );
        expect(sumOf(samples, "orbweaver_history_reached")).toBe(0);
      }
    },
  );

  it("say how jobs ended and what their GPU-seconds were worth, where a history database is kept", async () => {
    const { ledger } = await followed(files[0] ?? "");
    const metrics = createFleetMetrics();
    const at = { nowMs: 0, atMs: 0, isReached: true };
    expect(String((await metrics.expose(ledger, at)).body)).not.toContain("jobs_finished_total{");
    const tally = { class: "training", end: "stopped" } as const;
    const samples = samplesOf(
      await metrics.expose(ledger, {
        ...at,
        tallies: [
          { ...tally, name: "jobs", end: "cancelled", value: 2 },
          { ...tally, name: "useful", value: 1_500 },
          { ...tally, name: "lost", value: 500 },
          { ...tally, name: "predictions", value: 4 },
          { ...tally, name: "prediction-error", value: 250_000 },
        ],
      }),
    );
    const labels = { class: "training", end: "stopped" };
    expect(
      sumOf(samples, "orbweaver_jobs_finished_total", { class: "training", outcome: "cancelled" }),
    ).toBe(2);
    expect(sumOf(samples, "orbweaver_jobs_finished_total")).toBe(2);
    expect(sumOf(samples, "orbweaver_lease_gpu_seconds_total", { ...labels, kind: "useful" })).toBe(
      1.5,
    );
    expect(sumOf(samples, "orbweaver_lease_gpu_seconds_total", { ...labels, kind: "lost" })).toBe(
      0.5,
    );
    expect(sumOf(samples, "orbweaver_lease_gpu_seconds_total")).toBe(2);
    expect(sumOf(samples, "orbweaver_bandwidth_predictions_total")).toBe(4);
    expect(sumOf(samples, "orbweaver_bandwidth_prediction_error_ratio_total")).toBe(0.25);
  });

  it("judge each start estimate once, by its interval", () => {
    const estimate = (atMs?: number): KeptEstimate => ({
      ...{ askedAtMs: 0, fromMs: 10, medianMs: 20, toMs: 30 },
      outcome:
        atMs === undefined ? { kind: "waits", jobId: "job" as JobId } : { kind: "started", atMs },
    });
    const judge = (
      before: readonly (number | undefined)[],
      after: readonly (number | undefined)[],
    ) => judgedEstimates(before.map(estimate), after.map(estimate));
    expect(judge([undefined, undefined], [undefined, 5])).toEqual(["before"]);
    expect(judge([5, undefined, undefined], [5, 30, 31])).toEqual(["within", "after"]);
    // Equal ones count each, and old ones leave.
    expect(judge([15, 15, undefined], [15, 15, 15])).toEqual(["within"]);
    expect(judge([15, 15], [15])).toEqual([]);
    expect(judgedEstimates(undefined, undefined)).toEqual([]);
  });

  it("bound the tenants that have series of their own", () => {
    const label = tenantLabels(2);
    expect(["a", "b", "c", "a", "d", "b"].map(label)).toEqual([
      "a",
      "b",
      OTHER_TENANTS,
      "a",
      OTHER_TENANTS,
      "b",
    ]);
    expect(MOST_TENANTS).toBe(200);
  });
});
