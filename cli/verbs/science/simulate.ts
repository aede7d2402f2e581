/** @file `orbweaver simulate [TRACE]`: how a fleet would serve a trace, or a drawn mix, under one or several policies. */

import { Option, type Command } from "commander";
import { workloadFor, type EntrantName } from "../../../simulator/entrants/entrants.ts";
import { starvedAfterMs as starvationBoundMs } from "../../../simulator/starved-after.ts";
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseDuration } from "../../../domain/values/dimensions.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import {
  DEFAULT_POLICY,
  FLEET_PLACEMENTS,
  type FleetPlacement,
  type FleetShape,
} from "../../../domain/fleet/fleet.ts";
import type { Ms } from "../../../domain/values/units.ts";
import { schedulerWith } from "../../../simulator/scheduler.ts";
import { DEFAULT_COSTS } from "../../../simulator/options.ts";
import { fleetOf } from "../../../simulator/paper-fleet.ts";
import { TRACE_FORMATS, type TraceFormat } from "../../../simulator/readers/read-trace.ts";
import { traceWorkload } from "../../../simulator/readers/trace-workload.ts";
import type { SimulationResult } from "../../../simulator/result.ts";
import type { Workload } from "../../../simulator/workload.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { wholeNumber } from "../../command/option-values.ts";
import { answerText, documentOf, jobsCsv, type InputAccount } from "../../simulate/answer.ts";
import { drawnJobs, USUAL_JOBS, USUAL_LOAD, usualFleet } from "../../simulate/drawn-jobs.ts";
import {
  policiesNamed,
  policyList,
  POLICY_NAMES,
  USUAL_POLICIES,
} from "../../simulate/policy-choice.ts";
import { runWithProgress } from "../../simulate/run.ts";
import { fleetAt, traceAt } from "../../simulate/trace-files.ts";

interface SimulateValues {
  readonly format?: TraceFormat;
  readonly fleet?: string;
  readonly gpus?: number;
  readonly policy?: readonly EntrantName[];
  readonly placement?: FleetPlacement;
  readonly load?: number;
  readonly jobs?: number;
  readonly seed: number;
  readonly preemptionCost?: Ms;
  readonly csv?: string;
  readonly html?: string;
  readonly json?: boolean;
}

export function simulateVerb(context: CommandContext): Command {
  return context
    .verb("simulate")
    .summary("compare policies on a trace")
    .description(
      "Runs a trace through the scheduler on a simulated fleet in simulated time, and reports the waiting times of jobs and the utilisation of the fleet. Without a trace, draws jobs with the paper's distribution. The same input and seed give the same answer. Needs no connection. Traces are CSV, plain or gzipped; docs/simulator.md describes the mapping of each format.",
    )
    .argument("[trace]", "file with jobs")
    .addOption(
      new Option(
        "--format <name>",
        "format of the trace (default: recognised by its first line)",
      ).choices(TRACE_FORMATS),
    )
    .option("--fleet <file>", "fleet.yaml or a CSV of machines (default: the paper's 1,798 GPUs)")
    .option(
      "--gpus <n>",
      "a plain fleet of this many GPUs, eight in each host",
      wholeNumber("--gpus", 1),
    )
    .option(
      "--policy <names>",
      `${POLICY_NAMES.join(", ")}; several with commas (default: ${USUAL_POLICIES.join(",")})`,
      policyList,
    )
    .addOption(
      new Option(
        "--placement <name>",
        "how tawfq chooses GPUs, as policy.placement of a fleet file does (default: the fleet's own)",
      ).choices(FLEET_PLACEMENTS),
    )
    .option(
      "--load <share>",
      `stretch the times between arrivals to offer this share of the fleet (else the trace's own; drawn: ${String(USUAL_LOAD)})`,
      loadShare,
    )
    .option(
      "--jobs <n>",
      `the first so many of the trace (else all; drawn: ${String(USUAL_JOBS)})`,
      wholeNumber("--jobs", 1),
    )
    .option("--seed <n>", "seed of all random draws", wholeNumber("--seed", 0), 1)
    .option(
      "--preemption-cost <time>",
      "time that a checkpoint costs a preempted job (default: 2s)",
      checkpointTime,
    )
    .option("--csv <file>", "write a line for each job to this file")
    .option("--html <file>", "write a report with plots to this file")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        [
          "orbweaver simulate philly.csv.gz --load 0.9",
          "a published trace at a load of your choice",
        ],
        [
          "orbweaver simulate jobs.csv --fleet fleet.yaml --html report.html",
          "your own jobs on your own fleet, with plots",
        ],
        [
          "orbweaver simulate openb_pods.csv --fleet openb_nodes.csv --policy tawfq,fifo",
          "two policies on the same arrivals, on the trace's machines",
        ],
        ["orbweaver simulate --jobs 5000 --preemption-cost 10s --json", "the paper's mix, as JSON"],
      ]),
    )
    .action(async (trace: string | undefined, values: SimulateValues) => {
      context.endsByItself();
      const { workload, fleet, inputs } = inputOf(context, trace, values);
      const starvedAfterMs = starvationBoundMs(workload, fleet);
      const results: SimulationResult[] = [];
      for (const policy of values.policy ?? USUAL_POLICIES) {
        const result = await runWithProgress(context, {
          fleet,
          workload: workloadFor(policy, workload),
          policy,
          openScheduler: schedulerWith(policiesNamed(policy)),
          seed: values.seed,
          costs: { checkpointMs: values.preemptionCost ?? DEFAULT_COSTS.checkpointMs },
          keepsJobs: values.csv !== undefined,
          starvedAfterMs,
        });
        if (result === undefined) {
          context.exitWith(EXIT.interrupted);
          return;
        }
        results.push(result);
      }
      const answer = { results, inputs };
      if (values.csv !== undefined) written(context, values.csv, jobsCsv(results));
      if (values.html !== undefined) {
        written(context, values.html, await reportOf(results));
      }
      if (values.json === true) context.printJson(documentOf(answer));
      else context.print(answerText(answer, widthOf(context.io.stdout)));
    });
}

interface Input {
  readonly workload: Workload;
  readonly fleet: FleetShape;
  readonly inputs: readonly InputAccount[];
}

function inputOf(
  { io: { cwd } }: CommandContext,
  trace: string | undefined,
  values: SimulateValues,
): Input {
  const { fleet: fleetFile, gpus, load, jobs, format } = values;
  if (fleetFile !== undefined && gpus !== undefined) {
    throw new OrbweaverError("BAD_INPUT", "--fleet and --gpus are both a fleet. Give one of them.");
  }
  const read = fleetFile === undefined ? undefined : fleetAt(fleetFile, cwd);
  const described = read?.shape ?? (gpus === undefined ? usualFleet() : fleetOf([gpus]));
  const fleet = values.placement === undefined ? described : placedBy(values.placement, described);
  const ofFleet =
    read?.account === undefined || fleetFile === undefined
      ? []
      : [{ file: fleetFile, format: "machines", account: read.account }];
  if (trace === undefined) {
    if (format !== undefined) {
      throw new OrbweaverError("BAD_INPUT", "--format is that of a trace. Name the trace.");
    }
    const drawn = { jobs: jobs ?? USUAL_JOBS, load: load ?? USUAL_LOAD, seed: values.seed };
    return { workload: drawnJobs({ ...drawn, fleet }), fleet, inputs: ofFleet };
  }
  const { trace: parsed, name } = traceAt(trace, cwd, { ...(format !== undefined && { format }) });
  const workload = traceWorkload(parsed, {
    name,
    fleet,
    ...(load !== undefined && { load }),
    ...(jobs !== undefined && { jobs }),
  });
  const ofTrace = { file: trace, format: parsed.format, account: parsed.account };
  return { workload, fleet, inputs: [ofTrace, ...ofFleet] };
}

/** Only plots load these libraries. */
async function reportOf(results: readonly SimulationResult[]): Promise<string> {
  const { reportHtml } = await import("../../../simulator/report/page.ts");
  return reportHtml(results);
}

const placedBy = (placement: FleetPlacement, shape: FleetShape): FleetShape => ({
  ...shape,
  policy: { ...(shape.policy ?? DEFAULT_POLICY), placement },
});

function written(context: CommandContext, file: string, text: string): void {
  try {
    writeFileSync(resolve(context.io.cwd, file), text);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} cannot be written (${code}). Name a file in a folder that is there and writable.`,
    );
  }
  context.say(`· wrote ${file}`);
}

/** Above 10 the result shows only that the queue grows. */
const MOST_LOAD = 10;

function loadShare(text: string): number {
  const value = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && value > 0 && value <= MOST_LOAD) return value;
  throw new OrbweaverError(
    "BAD_INPUT",
    `--load ${JSON.stringify(text)} is not a share above 0 and at most ${String(MOST_LOAD)}. Write e.g. --load 0.9.`,
  );
}

function checkpointTime(text: string): Ms {
  const reading = parseDuration(text);
  if (reading.kind === "read") return reading.value;
  throw new OrbweaverError("BAD_INPUT", `--preemption-cost ${reading.message}; ${reading.remedy}.`);
}
