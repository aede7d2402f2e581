/**
 * @file Learning from steps: plans for jobs on GPUs and links whose true speeds nobody knows, before ten runs were measured and after.
 *
 * A world hides how fast its GPUs compute and how fast its NVLink and its fabric really are, beside what data sheets and the fleet file say; each
 * choice of degrees is off by an error of its own, and each run's typical step by noise. Ten jobs of one model run there as a live fleet plans them, each with
 * the corrections of those before it, and are kept as the bandwidth model keeps them. Then jobs that were not seen are planned with what was learned
 * and without, and the true step of both plans is compared.
 */

import type { KeptStep } from "../../domain/model/step-record.ts";
import { modelPreset } from "../../domain/model/model-presets.ts";
import { randomFrom, type Random } from "../../lib/random.ts";
import { frameworkOn } from "../../planning/parallelism/framework.ts";
import type { PlanModel } from "../../planning/parallelism/models.ts";
import { planTraining, type TrainingPlan } from "../../planning/parallelism/plan.ts";
import { insideOf } from "../../planning/parallelism/fleet-site.ts";
import type { PlanSite, Way } from "../../planning/parallelism/site.ts";
import { degreesText, layerSums, planName } from "../../planning/parallelism/split.ts";
import {
  correctedSite,
  NO_CORRECTIONS,
  stepCorrections,
  stepSubject,
  stepTerms,
  type StepCorrections,
} from "../../planning/parallelism/step-corrections.ts";
import { playedStep } from "../../planning/parallelism/step-time.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { atMost, barOf, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";

const MODELS = ["gpt2-350m", "gpt2-1.3b", "opt-6.7b", "llama-7b"] as const;
const BATCHES = [32, 64, 128] as const;
/** GPUs of each host. */
const GANGS = [[8], [4, 4], [8, 8], [4, 4, 4, 4]] as const;
const FABRIC_GBS = 12.5;
/** Standard deviations, in logarithms. Training reaches 20 to 60 % of a peak, links half of what is stated to a little more. */
const COMPUTE_LOG = 0.35;
const LINK_LOG = 0.4;
const PLAN_LOG = 0.04;
const NOISE_LOG = 0.02;
const TENANT = "default";
const LEARNT_JOBS = 10;
const WORLDS = 20;
const JUDGED_JOBS = 6;
/** Two choices of degrees differ by as much beyond what any term can tell, twice: e^(2 √2 × 0.04). */
const WORST = 1.12;

interface World {
  readonly seed: number;
  readonly model: PlanModel;
  readonly truth: (site: PlanSite) => PlanSite;
}

interface Job {
  readonly site: PlanSite;
  readonly batch: number;
}

export interface LearntJob {
  /** |ln (predicted ÷ true step)| with what was learned, and without. */
  readonly error: number;
  readonly errorBefore: number;
  /** True step of the plan with what was learned ÷ of the plan without. */
  readonly ratio: number;
}

export async function measureLearning(
  seed: number,
  say: (line: string) => void,
): Promise<{ readonly bars: readonly Bar[]; readonly table: BenchTable }> {
  const worlds: (readonly LearntJob[])[] = [];
  for (let at = 0; at < WORLDS; at += 1) {
    worlds.push(await learnedIn(seed + at, JUDGED_JOBS));
    if (worlds.length % 5 === 0)
      say(`plan: learned in ${String(worlds.length)} of ${WORLDS} worlds`);
  }
  const jobs = worlds.flat();
  const before = mean(jobs.map(({ errorBefore }) => errorBefore));
  const after = mean(jobs.map(({ error }) => error));
  const ratios = jobs.map(({ ratio }) => ratio);
  const [percent, count] = [(part: number) => (100 * part).toFixed(1), String(jobs.length)];
  return {
    bars: [
      barOf({
        id: "learning-error",
        unit: "×",
        target: atMost(0.5),
        got: after / before,
        note: `error of the predicted step after ${String(LEARNT_JOBS)} measured runs ÷ before, ${count} jobs: ${percent(after)} % ÷ ${percent(before)} %`,
      }),
      barOf({
        id: "learning-step",
        unit: "×",
        target: atMost(1),
        got: mean(ratios),
        note: "true step of the plan with what was learned ÷ without, mean",
      }),
      barOf({
        id: "learning-worst",
        unit: "×",
        target: atMost(WORST),
        got: Math.max(...ratios),
        note: "the same, the job that fares worst",
      }),
    ],
    table: {
      title: "Steps predicted before and after ten measured runs",
      columns: ["WORLD", "JOBS", "ERROR BEFORE %", "ERROR AFTER %", "STEP ÷", "WORST"],
      rows: worlds.map((own, at) => [
        String(seed + at),
        String(own.length),
        ...(own.length === 0
          ? ["", "", "", ""]
          : [
              percent(mean(own.map(({ errorBefore }) => errorBefore))),
              percent(mean(own.map(({ error }) => error))),
              mean(own.map(({ ratio }) => ratio)).toFixed(3),
              Math.max(...own.map(({ ratio }) => ratio)).toFixed(3),
            ]),
      ]),
    },
  };
}

export async function learnedIn(seed: number, judgedJobs: number): Promise<readonly LearntJob[]> {
  const world = worldOf(seed);
  const draws = randomFrom(seed, "learning");
  const kept: KeptStep[] = [];
  for (let at = 0; at < LEARNT_JOBS; at += 1) {
    const job = drawJob(draws.stream(`run ${String(at)}`));
    const corrections = stepCorrections(kept, TENANT);
    const plan = await planned(world, job, corrections);
    if (plan !== undefined) kept.push(recordOf(world, { job, plan, corrections, at }));
  }
  const learned = stepCorrections(kept, TENANT);
  const judged: LearntJob[] = [];
  for (let at = 0; at < judgedJobs; at += 1) {
    const job = drawJob(draws.stream(`judged ${String(at)}`));
    const [after, before] = [
      await planned(world, job, learned),
      await planned(world, job, NO_CORRECTIONS),
    ];
    if (after === undefined || before === undefined) continue;
    const [trueAfter, trueBefore] = [trueMs(world, job, after), trueMs(world, job, before)];
    judged.push({
      error: Math.abs(Math.log(after.stepMs / trueAfter)),
      errorBefore: Math.abs(Math.log(before.stepMs / trueBefore)),
      ratio: trueAfter / trueBefore,
    });
  }
  return judged;
}

function worldOf(seed: number): World {
  const random = randomFrom(seed, "learning world");
  const name = MODELS[random.below(MODELS.length)] ?? MODELS[0];
  const found = modelPreset(name);
  if (found === undefined) throw new Error(`no preset ${name}`);
  const compute = Math.exp(COMPUTE_LOG * random.normal());
  const [inside, outside] = [0, 1].map(() => Math.exp(LINK_LOG * random.normal())) as [
    number,
    number,
  ];
  const slowed = (way: Way, by: number): Way => ({ ...way, gbs: way.gbs / by });
  return {
    seed,
    model: presetModel(...found),
    truth: (site) => ({
      hosts: site.hosts.map((host) => ({
        ...host,
        teraflops: host.teraflops / compute,
        inside: slowed(host.inside, inside),
      })),
      fabric: (cluster) => slowed(site.fabric(cluster), outside),
      between: site.between,
    }),
  };
}

function drawJob(random: Random): Job {
  const gpus = GANGS[random.below(GANGS.length)] ?? GANGS[0];
  const fabric = { gbs: FABRIC_GBS, latencyMs: 0.05, isAssumed: false };
  return {
    batch: BATCHES[random.below(BATCHES.length)] ?? BATCHES[0],
    site: {
      hosts: gpus.map((gpuCount, at) => ({
        id: `h${String(at)}`,
        cluster: "a",
        gpuType: "A100",
        gpuCount,
        memoryGiB: 80,
        teraflops: 312,
        inside: insideOf("A100", true),
        nvlinkGpus: gpuCount,
      })),
      fabric: () => fabric,
      between: () => fabric,
    },
  };
}

async function planned(
  { model }: World,
  { site, batch }: Job,
  corrections: StepCorrections,
): Promise<TrainingPlan | undefined> {
  const answer = await planTraining({
    model,
    site: correctedSite(site, corrections),
    batch,
    random: randomFrom(1, "plan"),
  });
  return answer.kind === "planned" ? answer.plan : undefined;
}

/** As the links really are, with the error of this choice of degrees. */
function trueMs({ seed, model, truth }: World, { site }: Job, { split }: TrainingPlan): number {
  const sums = layerSums(model, frameworkOn(site));
  const off = randomFrom(seed, `${degreesText(split)} ${String(split.microBatch)}`).normal();
  return playedStep(split, { site: truth(site), sums }).totalMs * Math.exp(PLAN_LOG * off);
}

function recordOf(
  world: World,
  run: {
    readonly job: Job;
    readonly plan: TrainingPlan;
    readonly corrections: StepCorrections;
    readonly at: number;
  },
): KeptStep {
  const { job, plan, corrections, at } = run;
  const noise = randomFrom(world.seed, `noise ${String(at)}`).normal();
  return {
    ...stepSubject(world.model, job.site),
    ...stepTerms(plan, corrections),
    plan: planName(plan.split),
    predictedMs: plan.stepMs,
    ...{ run: `job-${String(at)}`, tenant: TENANT },
    measuredMs: trueMs(world, job, plan) * Math.exp(NOISE_LOG * noise),
    atMs: at,
  };
}
