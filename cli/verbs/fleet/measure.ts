/** @file `orbweaver fleet measure`: measures the bandwidth of a cluster's GPU sets, after showing the cost. */

import { Option, type Command } from "commander";
import { join } from "node:path";
import type { Ledger } from "../../../client/index.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import {
  areSameMessages,
  COLLECTIVES,
  messagesText,
  USUAL_MESSAGES,
  type Collective,
  type MessageProfile,
} from "../../../domain/bandwidth/message-profile.ts";
import { parseMessageSize } from "../../../domain/values/dimensions.ts";
import type { ClusterShape, HostShape } from "../../../domain/fleet/fleet.ts";
import { packageRoot } from "../../../workers/server/package-root.ts";
import { fleetStateDir } from "../../../workers/state.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { counted } from "../../terminal/duration.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { costText } from "../../measuring/cost-text.ts";
import type { Gathered } from "../../measuring/jobs.ts";
import {
  gatherOpen,
  knownOf,
  measureBetween,
  measureInside,
  needOf,
  publish,
  publishOther,
  type MeasureTerms,
  type Published,
} from "../../measuring/measure.ts";
import { measuredSets, openResults, readingsOf } from "../../measuring/results.ts";
import { standInFor } from "../../measuring/stand-in.ts";
import { workOf } from "../../measuring/work.ts";
import { nameList, wholeNumber } from "../../command/option-values.ts";
import type { Session } from "../../command/session.ts";

interface MeasureValues extends ConnectionOptionValues {
  readonly cluster?: string;
  readonly hosts?: readonly string[];
  readonly between?: number;
  readonly size?: number;
  readonly collective?: Collective;
  readonly maxMinutes?: number;
  readonly program?: string;
  readonly launcher: string;
  readonly runner?: string;
  readonly timeout: number;
  readonly tenant?: string;
  readonly standIn?: readonly string[];
  readonly standInDelay: number;
  readonly seed: number;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

export function fleetMeasureVerb(context: CommandContext): Command {
  const verb = context
    .verb("measure")
    .summary("measure the bandwidth of GPU sets")
    .description(
      "Measures a cluster with nccl-tests: every GPU set inside its hosts, and the sets over several hosts that are most informative for the model. Known sets are not measured again. Shows the cost first.\n\nThe measurements run as jobs that hold whole hosts. Every reading is stored at once, so the same command resumes an interrupted measurement. The tables go to the running fleet, and as files into its state folder for the fleet file's `bandwidth`.",
    )
    .option("--cluster <name>", "cluster to measure (required when the fleet has several)")
    .option("--hosts <names>", "only these hosts", nameList)
    .option(
      "--between <n>",
      `number of measured sets over several hosts, including known ones (default: ${String(BETWEEN)}; ${String(FEW)} with --size or --collective)`,
      wholeNumber("--between", 0),
    )
    .option(
      "--size <size>",
      "measure a few sets with messages of this size, beside the usual 16 MiB",
      messageSizeOption,
    )
    .addOption(
      new Option("--collective <name>", "the same for another collective").choices(COLLECTIVES),
    )
    .option(
      "--max-minutes <n>",
      "approximate limit of the measuring time",
      wholeNumber("--max-minutes", 1),
    )
    .option("--dry-run", "show the cost without measuring")
    .option(
      "--program <line>",
      `nccl-tests program with its options (default: ${PROGRAM}, or as --size and --collective say)`,
    )
    .option("--launcher <line>", "program that starts it over several hosts", LAUNCHER)
    .option("--runner <line>", "command that starts Orbweaver's measuring program on a host")
    .option(
      "--timeout <s>",
      "time after which the measurement of a set fails",
      wholeNumber("--timeout", 1),
      120,
    )
    .option("--tenant <name>", "tenant of the measuring jobs")
    .option(
      "--stand-in <files>",
      "take readings from BandPilot's CSV files instead of GPUs",
      nameList,
    )
    .option(
      "--stand-in-delay <ms>",
      "delay of each such reading",
      wholeNumber("--stand-in-delay", 0),
      0,
    )
    .option(
      "--seed <n>",
      "seed of the drawn sets and of the noise of --stand-in",
      wholeNumber("--seed", 0),
      1,
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet measure --dry-run", "the cost of measuring"],
        [
          "orbweaver fleet measure --cluster eu-1 --hosts h100-1,h100-2 --between 30",
          "measure two hosts",
        ],
        [
          "orbweaver fleet measure --size 2GiB",
          "25 sets with large messages, for jobs with such communication",
        ],
        [
          "orbweaver fleet measure --stand-in intra_host_16MB.csv,h100_inter_host_16MB.csv",
          "try it on a fleet without GPUs",
        ],
      ]),
    )
    .action(async (values: MeasureValues) => {
      await context.withSession(values, (session) => measure(context, values, session));
    });
  return addConnectionOptions(verb);
}

/** As the paper's data was taken: 16 MiB; the collective is the one that its files name. */
const PROGRAM = "all_reduce_perf -b 16M -e 16M";
const LAUNCHER = "mpirun";
/** Sets over hosts, and sets in all with other messages. */
const BETWEEN = 50;
const FEW = 25;

const programFor = ({ collective, bytes }: MessageProfile): string =>
  `${collective}_perf -b ${String(bytes)} -e ${String(bytes)}`;

/** Undefined of the usual ones, which the tables are of. */
function messagesOf({ size, collective }: MeasureValues): MessageProfile | undefined {
  const { bytes, collective: usual } = USUAL_MESSAGES;
  const messages = { collective: collective ?? usual, bytes: size ?? bytes };
  return areSameMessages(messages, USUAL_MESSAGES) ? undefined : messages;
}

function messageSizeOption(text: string): number {
  const size = parseMessageSize(text);
  if (size.kind === "read" && size.value > 0) return size.value;
  const why = size.kind === "refused" ? `${size.message}. ${size.remedy}` : "it is 0";
  throw new OrbweaverError("BAD_INPUT", `--size ${text}: ${why}.`);
}

async function measure(
  context: CommandContext,
  values: MeasureValues,
  session: Session,
): Promise<void> {
  const ledger = await session.client.fleet();
  const cluster = clusterOf(ledger, values.cluster);
  const results = openResults(fleetStateDir(context.io.env, session.fleet), cluster.id);
  try {
    const terms = termsOf(context, values, { session, cluster, results });
    const earlier = values.dryRun === true ? [] : await gatherOpen(terms);
    const known = await knownOf(terms, ledger);
    const work = workOf(needOf(terms, known));
    const { cost } = work;
    const isAnything = [...cost.hosts, ...cost.groups].some(({ sets }) => sets > 0);
    if (values.json !== true) context.print(costText(cost, widthOf(context.io.stdout)));
    if (values.dryRun === true) {
      if (values.json === true)
        context.printJson({ fleet: session.fleet, cluster: cluster.id, cost });
      return;
    }
    const inside = await measureInside(terms, work);
    const need = needOf(terms, await knownOf(terms, ledger));
    const between = await measureBetween(terms, need, work);
    const gathered = [...earlier, ...inside, ...between];
    const isPublished = isAnything || earlier.length > 0;
    if (terms.messages !== undefined) {
      const setsSent = isPublished ? await publishOther(terms, terms.messages) : 0;
      answer(context, values, {
        cluster,
        terms,
        gathered,
        cost,
        published: { files: [], setsSent },
      });
      return;
    }
    const published = isPublished ? await publish(terms, await knownOf(terms, ledger)) : undefined;
    answer(context, values, { cluster, terms, gathered, cost, published });
  } finally {
    results.close();
  }
}

interface Found {
  readonly cluster: ClusterShape;
  readonly terms: MeasureTerms;
  readonly gathered: readonly Gathered[];
  readonly cost: object;
  readonly published: Omit<Published, "detailsHash"> | undefined;
}

function answer(context: CommandContext, values: MeasureValues, found: Found): void {
  const { cluster, terms, gathered, cost, published } = found;
  const readings = readingsOf(terms.results, terms.messages);
  const sets = measuredSets(readings).length;
  const failures = readings.filter(({ problem }) => problem !== undefined);
  const troubles = gathered.flatMap(({ jobId, problem }) =>
    problem === undefined ? [] : [{ jobId, problem }],
  );
  if (values.json === true) {
    context.printJson({
      fleet: terms.fleet,
      cluster: cluster.id,
      cost,
      jobs: gathered,
      sets,
      failures: failures.map(({ shares, problem }) => ({ shares, problem })),
      ...published,
    });
  } else {
    const of = terms.messages && ` with messages of ${messagesText(terms.messages)}`;
    context.print(`cluster ${cluster.id}: ${counted(sets, "set")} measured in all${of ?? ""}`);
    for (const file of published?.files ?? []) context.print(`  ${file}`);
    if (published !== undefined && published.setsSent > 0) {
      context.print(
        `${counted(published.setsSent, "set")}${of === undefined ? " over hosts" : ""} were sent to its bandwidth model`,
      );
    }
    if (published !== undefined && published.files.length > 0) {
      context.say(
        "name these files under `bandwidth` of the hosts and the cluster in the fleet file; otherwise the next apply drops them",
      );
    }
    for (const { jobId, problem } of troubles) context.say(`${jobId}: ${problem}`);
    if (failures.length > 0) {
      const [first] = failures;
      context.say(
        `${counted(failures.length, "set")} could not be measured: ${first?.problem ?? ""}`,
      );
    }
  }
  if (troubles.length > 0) context.exitWith(EXIT.failure);
}

interface CycleView {
  readonly session: Session;
  readonly cluster: ClusterShape;
  readonly results: MeasureTerms["results"];
}

function termsOf(
  context: CommandContext,
  values: MeasureValues,
  { session, cluster, results }: CycleView,
): MeasureTerms {
  const { maxMinutes, launcher, runner, timeout, tenant, standIn, seed } = values;
  const messages = messagesOf(values);
  const { between = messages === undefined ? BETWEEN : FEW } = values;
  const { program = messages === undefined ? PROGRAM : programFor(messages) } = values;
  const hosts = hostsOf(cluster, values.hosts);
  const settings = standIn && {
    files: standIn,
    cwd: context.io.cwd,
    seed,
    delayMs: values.standInDelay,
  };
  const standInAll = settings && standInFor(cluster.hosts, settings);
  return {
    fleet: session.fleet,
    temporal: session.temporal,
    client: session.client,
    stateDir: fleetStateDir(context.io.env, session.fleet),
    cluster,
    hosts,
    between,
    seed,
    results,
    runner: runner === undefined ? [process.execPath, RUNNER] : words("--runner", runner),
    ...(maxMinutes !== undefined && { maxSeconds: maxMinutes * 60 }),
    ...(tenant !== undefined && { tenant }),
    ...(messages !== undefined && { messages }),
    orderFor: () => ({
      ...(messages !== undefined && { messages }),
      program: words("--program", program),
      launcher: words("--launcher", launcher),
      timeoutMs: timeout * 1_000,
      ...(standInAll !== undefined && { standIn: standInAll }),
    }),
    say: context.say,
  };
}

/** Agents have the same package at the same place, unless `--runner` says otherwise. */
const RUNNER = join(packageRoot(), "dist", "workers", "measuring", "entry.js");

function words(flag: string, line: string): string[] {
  const found = line.split(/\s+/).filter((word) => word !== "");
  if (found.length > 0) return found;
  throw new OrbweaverError("BAD_INPUT", `${flag} is empty. Name a program.`);
}

function clusterOf({ shape: { clusters } }: Ledger, name: string | undefined): ClusterShape {
  const names = clusters.map(({ id }) => id).join(", ");
  const [first, ...others] = clusters;
  if (name === undefined && first !== undefined && others.length === 0) return first;
  const found = clusters.find(({ id }) => id === name);
  if (found !== undefined) return found;
  throw new OrbweaverError(
    "BAD_INPUT",
    name === undefined
      ? `the fleet has several clusters. Name one with --cluster: ${names}.`
      : `the fleet has no cluster ${JSON.stringify(name)}. Name one of ${names}.`,
  );
}

function hostsOf(
  cluster: ClusterShape,
  names: readonly string[] | undefined,
): readonly HostShape[] {
  if (names === undefined) return cluster.hosts;
  const wanted = new Set(
    names.map((name) => (name.includes("/") ? name : `${cluster.id}/${name}`)),
  );
  const found = cluster.hosts.filter(({ id }) => wanted.delete(id));
  const [missing] = wanted;
  if (missing === undefined) return found;
  throw new OrbweaverError(
    "BAD_INPUT",
    `cluster ${cluster.id} has no host ${JSON.stringify(missing)}. It has ${cluster.hosts.map(({ id }) => id).join(", ")}.`,
  );
}
