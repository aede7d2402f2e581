/** @file `orbweaver fleet measure`: measures the bandwidth of a cluster's GPU sets, its cost shown first. */

import type { Command } from "commander";
import { join } from "node:path";
import type { Ledger } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import type { ClusterShape, HostShape } from "../../domain/fleet.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { fleetStateDir } from "../../workers/state.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { counted } from "../duration.ts";
import { EXIT } from "../exit-code.ts";
import { widthOf } from "../io.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { costText } from "../measuring/cost-text.ts";
import type { Gathered } from "../measuring/jobs.ts";
import {
  gatherOpen,
  knownOf,
  measureBetween,
  measureInside,
  needOf,
  publish,
  type MeasureTerms,
} from "../measuring/measure.ts";
import { measuredSets, openResults } from "../measuring/results.ts";
import { standInFor } from "../measuring/stand-in.ts";
import { workOf } from "../measuring/work.ts";
import { nameList, wholeNumber } from "../option-values.ts";
import type { Session } from "../session.ts";

interface MeasureValues extends ConnectionOptionValues {
  readonly cluster?: string;
  readonly hosts?: readonly string[];
  readonly between: number;
  readonly maxMinutes?: number;
  readonly program: string;
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

export function fleetMeasureVerb(kit: Kit): Command {
  const verb = kit
    .verb("measure")
    .summary("measure the bandwidth of GPU sets")
    .description(
      "Measures a cluster with nccl-tests: every GPU set inside its hosts, and over hosts those sets that teach most. " +
        "What is known is not measured again. The cost is shown first. It runs as jobs that hold whole hosts; every reading " +
        "is stored at once, and the same command goes on with what was interrupted.\n" +
        "The tables go to the running fleet, and as files into its state folder for the fleet file's `bandwidth`.",
    )
    .option("--cluster <name>", "which cluster (needed when the fleet has several)")
    .option("--hosts <names>", "only these of its hosts", nameList)
    .option(
      "--between <n>",
      "sets over several hosts to have in all",
      wholeNumber("--between", 0),
      50,
    )
    .option(
      "--max-minutes <n>",
      "measure no longer than about this",
      wholeNumber("--max-minutes", 1),
    )
    .option("--dry-run", "show the cost and do nothing")
    .option("--program <line>", "the nccl-tests program and its options", PROGRAM)
    .option("--launcher <line>", "what starts it over several hosts", LAUNCHER)
    .option("--runner <line>", "how a host starts Orbweaver's measuring program")
    .option("--timeout <s>", "a set that takes longer has failed", wholeNumber("--timeout", 1), 120)
    .option("--tenant <name>", "on whose account the jobs run")
    .option("--stand-in <files>", "answer from BandPilot's CSV files instead of GPUs", nameList)
    .option(
      "--stand-in-delay <ms>",
      "how long each such answer takes",
      wholeNumber("--stand-in-delay", 0),
      0,
    )
    .option(
      "--seed <n>",
      "draws the sets over hosts and the stand-in's noise",
      wholeNumber("--seed", 0),
      1,
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet measure --dry-run", "what it would take"],
        ["orbweaver fleet measure --cluster eu-1 --hosts h100-1,h100-2 --between 30", "two hosts"],
        [
          "orbweaver fleet measure --stand-in intra_host_16MB.csv,h100_inter_host_16MB.csv",
          "a fleet without GPUs",
        ],
      ]),
    )
    .action(async (values: MeasureValues) => {
      await kit.withSession(values, (session) => measure(kit, values, session));
    });
  return addConnectionOptions(verb);
}

/** As the paper's data was taken: 16 MiB; the collective is the one that its files name. */
const PROGRAM = "all_reduce_perf -b 16M -e 16M";
const LAUNCHER = "mpirun";

async function measure(kit: Kit, values: MeasureValues, session: Session): Promise<void> {
  const ledger = await session.client.fleet();
  const cluster = clusterOf(ledger, values.cluster);
  const results = openResults(fleetStateDir(kit.io.env, session.fleet), cluster.id);
  try {
    const terms = termsOf(kit, values, { session, cluster, results });
    const earlier = values.dryRun === true ? [] : await gatherOpen(terms);
    const known = await knownOf(terms, ledger);
    const work = workOf(needOf(terms, known));
    const { cost } = work;
    const isAnything = [...cost.hosts, ...cost.groups].some(({ sets }) => sets > 0);
    if (values.json !== true) kit.print(costText(cost, widthOf(kit.io.stdout)));
    if (values.dryRun === true) {
      if (values.json === true) kit.printJson({ fleet: session.fleet, cluster: cluster.id, cost });
      return;
    }
    const inside = await measureInside(terms, work);
    const need = needOf(terms, await knownOf(terms, ledger));
    const between = await measureBetween(terms, need, work);
    const gathered = [...earlier, ...inside, ...between];
    const isPublished = isAnything || earlier.length > 0;
    const published = isPublished ? await publish(terms, await knownOf(terms, ledger)) : undefined;
    answer(kit, values, { cluster, terms, gathered, cost, published });
  } finally {
    results.close();
  }
}

interface Found {
  readonly cluster: ClusterShape;
  readonly terms: MeasureTerms;
  readonly gathered: readonly Gathered[];
  readonly cost: object;
  readonly published: Awaited<ReturnType<typeof publish>> | undefined;
}

function answer(kit: Kit, values: MeasureValues, found: Found): void {
  const { cluster, terms, gathered, cost, published } = found;
  const { readings } = terms.results;
  const sets = measuredSets(readings).length;
  const failures = readings.filter(({ problem }) => problem !== undefined);
  const troubles = gathered.flatMap(({ jobId, problem }) =>
    problem === undefined ? [] : [{ jobId, problem }],
  );
  if (values.json === true) {
    kit.printJson({
      fleet: terms.fleet,
      cluster: cluster.id,
      cost,
      jobs: gathered,
      sets,
      failures: failures.map(({ shares, problem }) => ({ shares, problem })),
      ...published,
    });
  } else {
    kit.print(`cluster ${cluster.id}: ${counted(sets, "set")} measured in all`);
    for (const file of published?.files ?? []) kit.print(`  ${file}`);
    if (published !== undefined && published.told > 0) {
      kit.print(`its bandwidth model was told ${counted(published.told, "set")} over hosts`);
    }
    if (published !== undefined) {
      kit.say(
        "name these files under `bandwidth` of its hosts and of the cluster in the fleet file, or the next apply is without",
      );
    }
    for (const { jobId, problem } of troubles) kit.say(`${jobId}: ${problem}`);
    if (failures.length > 0) {
      const [first] = failures;
      kit.say(`${counted(failures.length, "set")} could not be measured: ${first?.problem ?? ""}`);
    }
  }
  if (troubles.length > 0) kit.exitWith(EXIT.failure);
}

interface Scene {
  readonly session: Session;
  readonly cluster: ClusterShape;
  readonly results: MeasureTerms["results"];
}

function termsOf(
  kit: Kit,
  values: MeasureValues,
  { session, cluster, results }: Scene,
): MeasureTerms {
  const { between, maxMinutes, program, launcher, runner, timeout, tenant, standIn, seed } = values;
  const hosts = hostsOf(cluster, values.hosts);
  const wish = standIn && { files: standIn, cwd: kit.io.cwd, seed, delayMs: values.standInDelay };
  const standInAll = wish && standInFor(cluster.hosts, wish);
  return {
    fleet: session.fleet,
    temporal: session.temporal,
    client: session.client,
    stateDir: fleetStateDir(kit.io.env, session.fleet),
    cluster,
    hosts,
    between,
    seed,
    results,
    runner: runner === undefined ? [process.execPath, RUNNER] : words("--runner", runner),
    ...(maxMinutes !== undefined && { maxSeconds: maxMinutes * 60 }),
    ...(tenant !== undefined && { tenant }),
    orderFor: () => ({
      program: words("--program", program),
      launcher: words("--launcher", launcher),
      timeoutMs: timeout * 1_000,
      ...(standInAll !== undefined && { standIn: standInAll }),
    }),
    say: kit.say,
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
