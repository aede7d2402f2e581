/** @file What is shipped for Prometheus and Grafana: every expression names series that a console really has. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import { createFleetMetrics } from "../../console/metrics/fleet-metrics.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { ROOT } from "../support/world.ts";
import { foldedOf } from "../support/recorded-fleet.ts";

const GRAFANA = path.join(ROOT, "deploy/grafana");
const ALERTS = path.join(ROOT, "deploy/prometheus/alerts.yaml");

interface Shipped {
  readonly place: string;
  readonly expression: string;
}

function shipped(): readonly Shipped[] {
  const panels = readdirSync(GRAFANA).flatMap((file) => {
    const board = JSON.parse(readFileSync(path.join(GRAFANA, file), "utf8")) as {
      readonly panels: readonly {
        readonly title: string;
        readonly targets: readonly { readonly expr: string }[];
      }[];
    };
    return board.panels.flatMap(({ title, targets }) =>
      targets.map(({ expr }) => ({ place: `${file}: ${title}`, expression: expr })),
    );
  });
  const { groups } = parse(readFileSync(ALERTS, "utf8")) as {
    readonly groups: readonly {
      readonly rules: readonly {
        readonly alert: string;
        readonly expr: string;
        readonly annotations: Readonly<Record<string, string>>;
      }[];
    }[];
  };
  const alerts = groups.flatMap(({ rules }) =>
    rules.map(({ alert, expr, annotations }) => {
      expect(annotations["runbook"], alert).toBeTruthy();
      return { place: alert, expression: expr };
    }),
  );
  return [...panels, ...alerts];
}

/** Told by agents with `--metrics`. */
const OF_AGENTS = ["bucket", "sum", "count"].map((end) => `orbweaver_ready_seconds_${end}`);

/** Of all series, with the endings that their types have. */
let names: ReadonlySet<string>;

beforeAll(async () => {
  const file = path.join(ROOT, "test/histories/fleet.estimating.json");
  const history = historyFromJSON(JSON.parse(readFileSync(file, "utf8")));
  const events = history.events ?? [];
  const codecs = createConverters().worker.payloadCodecs ?? [];
  const run = await openFollowedRun("run-1", events[0] ?? {}, codecs);
  const metrics = createFleetMetrics();
  for (const one of await foldedOf(run, events)) metrics.fold(one);
  const now = { nowMs: Date.now(), atMs: Date.now(), isReached: true };
  const { body } = await metrics.expose(run.ledger(), now);
  const types = [...String(body).matchAll(/^# TYPE (\S+) (\S+)$/gm)];
  const endings: Readonly<Record<string, readonly string[]>> = {
    counter: ["_total"],
    gauge: [""],
    summary: ["_sum", "_count"],
    histogram: ["_bucket", "_sum", "_count"],
  };
  names = new Set(
    types.flatMap(([, name = "", type = ""]) => (endings[type] ?? []).map((end) => name + end)),
  );
});

describe("what is shipped for Prometheus and Grafana", () => {
  it("names series that a console has", () => {
    const all = shipped();
    expect(all.length).toBeGreaterThan(25);
    for (const { place, expression } of all) {
      const used = expression.match(/\borbweaver_[a-z_]+/g) ?? [];
      for (const name of used)
        expect([...names, ...OF_AGENTS], `${place}: ${expression}`).toContain(name);
      // Those of Temporal's SDK are held against a worker's own (test/integration/metrics.test.ts).
      expect(used.length > 0 || /\b(up\{|temporal_)/.test(expression), place).toBe(true);
    }
  });

  it("has the four boards, each of panels that do not overlap", () => {
    expect(readdirSync(GRAFANA).sort()).toEqual([
      ...["fleet.json", "latencies.json", "queue.json", "workers.json"],
    ]);
    for (const file of readdirSync(GRAFANA)) {
      const { panels } = JSON.parse(readFileSync(path.join(GRAFANA, file), "utf8")) as {
        readonly panels: readonly { readonly id: number; readonly gridPos: object }[];
      };
      expect(new Set(panels.map(({ id }) => id)).size, file).toBe(panels.length);
      const places = panels.map(({ gridPos }) => JSON.stringify(gridPos));
      expect(new Set(places).size, file).toBe(panels.length);
    }
  });

  it("describes every series in the docs", () => {
    const docs = readFileSync(path.join(ROOT, "docs/metrics.md"), "utf8");
    for (const name of names) expect(docs).toContain(name.replace(/_(bucket|sum|count)$/, ""));
  });

  it.skipIf(spawnSync("promtool", ["--version"]).status !== 0)("passes promtool", () => {
    const rules = spawnSync("promtool", ["check", "rules", ALERTS], { encoding: "utf8" });
    expect(rules.status, rules.stderr).toBe(0);
    const scrape = path.join(ROOT, "deploy/prometheus/scrape.yaml");
    const config = spawnSync("promtool", ["check", "config", scrape], { encoding: "utf8" });
    expect(config.status, config.stderr).toBe(0);
  });
});
