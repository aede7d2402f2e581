/**
 * @file How often the true start of a job that waits lies in the interval that `explain` states: Philly's jobs at load 0.9.
 *
 * While the trace is simulated, the ledger that a user would ask is played forward (forecast.ts) for some of the jobs that have
 * just begun to wait; afterwards the intervals are held against what came to be. An 80 % interval should be right in four cases of
 * five: one that is always right is too wide to be of use.
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import type { JobId } from "../../domain/ids.ts";
import { forecast } from "../../scheduling/forecast.ts";
import { brainWith, type OpenBrain } from "../../simulator/brain.ts";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { readPhilly } from "../../simulator/readers/philly.ts";
import { traceWorkload } from "../../simulator/readers/trace-workload.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { atLeast, atMost, barOf, unmeasured, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { ENTRANTS } from "./entrants.ts";
import { runOne } from "./run-one.ts";

const PHILLY = "data/traces/philly-2017-rows-40000-49999.csv.gz";
const LOAD = 0.9;
const FLEET_GPUS = 256;
/** Of the jobs that begin to wait, each so-many-th is asked about. */
const EACH = 7;
/** What a user's question may cost. */
const PLAYS = { samples: 30, maxDecisions: 3_000 } as const;

const LEAST = { id: "estimate-coverage-least", unit: "%", wish: atLeast(75) } as const;
const MOST = { id: "estimate-coverage-most", unit: "%", wish: atMost(85) } as const;

interface Asked {
  readonly fromMs: number;
  readonly toMs: number;
}

export async function measureEstimates(request: BenchRequest): Promise<readonly Bar[]> {
  const most = request.size("estimates");
  const packed = await readFile(join(packageRoot(), PHILLY)).catch(() => undefined);
  if (packed === undefined) return [unmeasured(LEAST, `${PHILLY} is not here`)];
  const trace = readPhilly(gunzipSync(packed).toString("utf8"), { source: PHILLY });
  if (trace.kind !== "jobs") return [unmeasured(LEAST, `${PHILLY} cannot be read`)];
  const fleet = fleetOf([FLEET_GPUS]);
  const jobs = request.size("estimate-jobs");
  const workload = traceWorkload(trace, { name: "philly", fleet, load: LOAD, jobs });
  const asked = new Map<JobId, Asked>();
  const options = {
    fleet,
    workload,
    policy: "tawfq",
    openBrain: asking(brainWith(ENTRANTS.tawfq.policies), { asked, most, seed: request.seed }),
    seed: request.seed,
    keepsJobs: true,
  };
  request.say(`estimates: Philly at load ${String(LOAD)}, up to ${String(most)} jobs asked about`);
  const { jobRows = [] } = await runOne(options, request);
  const starts = new Map<string, number>(
    jobRows.flatMap(({ id, firstGrantAtMs }) =>
      firstGrantAtMs === null ? [] : [[id, firstGrantAtMs]],
    ),
  );
  const hits = [...asked].filter(([job, { fromMs, toMs }]) => {
    const startMs = starts.get(job) ?? Infinity;
    return startMs >= fromMs && startMs <= toMs;
  }).length;
  const got = asked.size === 0 ? undefined : (100 * hits) / asked.size;
  const note = `${String(hits)} of ${String(asked.size)} true starts lie in their 80 % interval; ${String(FLEET_GPUS)} GPUs, ${String(jobs)} jobs`;
  return [barOf({ ...LEAST, got, note }), barOf({ ...MOST, got })];
}

interface Questions {
  readonly asked: Map<JobId, Asked>;
  readonly most: number;
  readonly seed: number;
}

/** Asks about jobs that a cycle has just left waiting; the brain does not notice. */
const asking =
  (open: OpenBrain, { asked, most, seed }: Questions): OpenBrain =>
  (ledger) => {
    const brain = open(ledger);
    const seen = new Set<JobId>();
    return {
      get ledger() {
        return brain.ledger;
      },
      decide: brain.decide,
      apply(event) {
        const applied = brain.apply(event);
        if (event.kind !== "plan") return applied;
        for (const job of brain.ledger.requests.keys()) {
          if (seen.has(job)) continue;
          seen.add(job);
          if (seen.size % EACH !== 0 || asked.size >= most) continue;
          const { nowMs } = event;
          const [answer] = forecast(brain.ledger, [job], { nowMs, seed, ...PLAYS });
          if (answer !== undefined) asked.set(job, answer);
        }
        return applied;
      },
    };
  };
