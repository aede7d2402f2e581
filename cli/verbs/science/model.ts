/** @file `orbweaver model …`: the bandwidth models of a fleet: versions, training data, training, rollback, evaluation. */

import type { Command } from "commander";
import { openBandwidthModel } from "../../../client/bandwidth-model.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import type { ModelManifest } from "../../../domain/model/model-manifest.ts";
import { modelDirOf, openRegistry } from "../../../models/bandwidth/registry.ts";
import type { BandwidthModelView, TrainingNote } from "../../../protocol/messages.ts";
import { fleetStateDir } from "../../../workers/state.ts";
import { addConnectionOptions } from "../../command/connection-options.ts";
import { counted, durationText, timeText } from "../../terminal/duration.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { percentText } from "../../text/model-text.ts";
import type { Session } from "../../command/session.ts";
import { answerInSession, type AnswerValues } from "../../command/answer.ts";
import { factsText, tableText, type Column } from "../../terminal/table.ts";
import { storeDirOf } from "../../up/places.ts";
import { modelEvaluateVerb } from "./model-evaluate.ts";

export function modelVerb(context: CommandContext): Command {
  return context
    .verb("model")
    .summary("manage the bandwidth models")
    .description(
      "Each cluster has a model of its collective bandwidth that learns from the measurements of jobs. Training runs on a solver worker. A new version serves only when it is better than the serving version. Versions are folders in the fleet's store; list, show and evaluate read them there.",
    )
    .addCommand(listVerb(context))
    .addCommand(showVerb(context))
    .addCommand(trainVerb(context))
    .addCommand(rollbackVerb(context))
    .addCommand(modelEvaluateVerb(context))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver model list", "all versions, with the serving ones marked"],
        ["orbweaver model rollback eu-1", "return to the former version"],
      ]),
    );
}

function listVerb(context: CommandContext): Command {
  const verb = context
    .verb("list")
    .summary("list the versions of each cluster")
    .description("Lists the versions in the store, and the version that the fleet uses.")
    .argument("[cluster]", "only this cluster")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver model list eu-1 --json", "one cluster, for a script"]]),
    )
    .action(async (only: string | undefined, values: AnswerValues) => {
      await answerInSession(context, values, async (session) => {
        const ledger = await session.client.fleet();
        const clusters = ledger.shape.clusters.filter(
          ({ id }) => only === undefined || id === only,
        );
        if (clusters.length === 0) throw noCluster(session.fleet, only ?? "");
        const rows = await Promise.all(
          clusters.map(async ({ id }) => ({
            cluster: id,
            serving: ledger.models?.get(id)?.version,
            versions: await registryFor(context, session.fleet, id).list(),
          })),
        );
        return {
          document: { fleet: session.fleet, clusters: rows },
          text: () => listText(rows, widthOf(context.io.stdout)),
        };
      });
    });
  return addConnectionOptions(verb);
}

interface ClusterVersions {
  readonly cluster: string;
  readonly serving: string | undefined;
  readonly versions: readonly ModelManifest[];
}

const LIST_COLUMNS: readonly Column[] = [
  { title: "CLUSTER", least: 8 },
  { title: "VERSION" },
  { title: "MADE" },
  { title: "FROM" },
  { title: "SAMPLES", isRight: true },
  { title: "ERROR", isRight: true },
  { title: "GATE" },
];

function listText(clusters: readonly ClusterVersions[], width: number): string {
  const rows = clusters.flatMap(({ cluster, serving, versions }) =>
    versions.map((version) => [
      cluster,
      version.version === serving ? `${version.version}*` : version.version,
      timeText(version.createdAtMs),
      version.parent ?? "",
      String(version.samples.count),
      percentText(version.holdout.own.mape),
      version.gate.holds ? "passed" : "refused",
    ]),
  );
  const bare = clusters.filter(({ versions }) => versions.length === 0);
  const none = `no version in the store of this machine: ${bare.map(({ cluster }) => cluster).join(", ")}`;
  return [
    ...(rows.length > 0 ? [tableText(LIST_COLUMNS, rows, width), "* serves"] : []),
    ...(bare.length > 0 ? [none] : []),
  ].join("\n");
}

function showVerb(context: CommandContext): Command {
  const verb = context
    .verb("show")
    .summary("show a cluster's model, or one version")
    .description(
      "Shows the serving version, the measurements since the last training, drift, outliers and the last training. With a version, shows its manifest.",
    )
    .argument("<cluster>", "the cluster")
    .argument("[version]", "e.g. v7")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver model show eu-1", "measurements, drift and the last training"],
        ["orbweaver model show eu-1 v7", "training data and quality of v7"],
      ]),
    )
    .action(async (cluster: string, version: string | undefined, values: AnswerValues) => {
      await answerInSession(context, values, async (session) => {
        const ledger = await session.client.fleet();
        if (!ledger.shape.clusters.some(({ id }) => id === cluster))
          throw noCluster(session.fleet, cluster);
        if (version !== undefined) {
          const manifest = await registryFor(context, session.fleet, cluster).manifest(version);
          if (manifest === undefined) {
            throw new OrbweaverError(
              "NOT_FOUND",
              `there is no version ${version} of the bandwidth model of ${cluster} in the store of this machine; see \`orbweaver model list\``,
            );
          }
          return { document: manifest, text: () => manifestText(manifest) };
        }
        const view = await modelOf(session, cluster).view();
        const used = [...(ledger.models ?? [])].find(([id]) => id === cluster)?.[1].version;
        return {
          document: { fleet: session.fleet, cluster, used, ...view },
          text: () => viewText({ cluster, used, view }, context.io.nowMs()),
        };
      });
    });
  return addConnectionOptions(verb);
}

function manifestText(manifest: ModelManifest): string {
  const { holdout, gate, samples, files } = manifest;
  return factsText([
    ["version", manifest.version],
    ["cluster", manifest.cluster],
    ["made", timeText(manifest.createdAtMs)],
    ["from", manifest.parent ?? "nothing"],
    ["learner", `${manifest.learner}, seed ${String(manifest.seed)}`],
    ["samples", `${String(samples.count)} (${samples.hash.slice(0, 12)})`],
    [
      "error",
      `${percentText(holdout.own.mape)} on ${counted(holdout.own.samples, "measurement")} that it was not shown`,
    ],
    [
      "rivals",
      [
        ...(holdout.serving === undefined
          ? []
          : [`${holdout.serving.version} ${percentText(holdout.serving.mape)}`]),
        `a plain guess ${percentText(holdout.plain.mape)}`,
      ].join(", "),
    ],
    ["gate", `${gate.holds ? "passed" : "refused"}: ${gate.reason}`],
    ["hosts", String(manifest.hosts.length)],
    ["files", files.map(({ name, bytes }) => `${name} (${String(bytes)} bytes)`).join(", ")],
  ]);
}

function viewText(
  at: {
    readonly cluster: string;
    readonly used: string | undefined;
    readonly view: BandwidthModelView | undefined;
  },
  nowMs: number,
): string {
  const { cluster, used, view } = at;
  const last = view?.lastTraining;
  const drift = view?.drift;
  return factsText([
    ["cluster", cluster],
    ["serves", used ?? "no version: gangs get the compact choice"],
    [
      "measured",
      view === undefined
        ? "nothing yet"
        : `${counted(view.samples, "measurement")} kept, ${String(view.fresh)} since the last training; ${String(view.repeated)} repeated, ${String(view.unfit)} unfit`,
    ],
    ["now", view?.busy],
    [
      "held",
      view?.isHeld === true
        ? `rolled back by hand: trains when \`orbweaver model train ${cluster}\` asks for it`
        : undefined,
    ],
    [
      "drift",
      drift &&
        `${drift.host ?? "the whole cluster"} measures ${(100 * drift.ratio).toFixed(0)} % of what is expected, for ${durationText(nowMs - drift.atMs)}`,
    ],
    [
      "outliers",
      view === undefined || view.outliers.length === 0
        ? undefined
        : view.outliers
            .map(
              ({ jobId, gbs, predictedGbs }) =>
                `${jobId}: ${gbs.toFixed(1)} GB/s, expected ${predictedGbs.toFixed(1)}`,
            )
            .join("\n"),
    ],
    ["training", last && `${last.kind}${last.version ? ` (${last.version})` : ""}, ${last.reason}`],
  ]);
}

function trainVerb(context: CommandContext): Command {
  const verb = context
    .verb("train")
    .summary("train a version now")
    .description(
      "Trains a version with the measurements so far, and lets it serve if it is better. Ends the hold of a rollback. Needs a worker of role solver. Exits with status 1 when no new version serves.",
    )
    .argument("<cluster>", "the cluster")
    .option("--from-nothing", "do not fine-tune the serving version")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver model train eu-1", "train with the latest measurements"]]),
    )
    .action(async (cluster: string, values: AnswerValues & { readonly fromNothing?: boolean }) => {
      await answerInSession(context, values, async (session) => {
        await checkCluster(session, cluster);
        context.say(`training for ${cluster} on a solver worker`);
        const isFromNothing = values.fromNothing === true;
        const note = await modelOf(session, cluster).train({ isFromNothing });
        if (note.kind !== "serves") context.exitWith(EXIT.failure);
        return {
          document: { fleet: session.fleet, cluster, ...note },
          text: () => `${note.version ?? cluster} ${kindText(note)}: ${note.reason}`,
        };
      });
    });
  return addConnectionOptions(verb);
}

const kindText = ({ kind }: Pick<TrainingNote, "kind">): string =>
  kind === "too-few" ? "not trained" : kind;

function rollbackVerb(context: CommandContext): Command {
  const verb = context
    .verb("rollback")
    .summary("let a former version serve")
    .description(
      "Lets the former version serve, or the one that --to names. Training then stops until `orbweaver model train` requests it. Needs a worker of role solver.",
    )
    .argument("<cluster>", "the cluster")
    .option("--to <version>", "version to serve, e.g. v7")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver model rollback eu-1", "return to the former version"],
        ["orbweaver model rollback eu-1 --to v3", "return to a chosen version"],
      ]),
    )
    .action(async (cluster: string, values: AnswerValues & { readonly to?: string }) => {
      await answerInSession(context, values, async (session) => {
        await checkCluster(session, cluster);
        const serving = await modelOf(session, cluster).rollback(values.to);
        return {
          document: { fleet: session.fleet, cluster, ...serving },
          text: () => `${serving.version} serves in ${cluster}`,
        };
      });
    });
  return addConnectionOptions(verb);
}

const modelOf = ({ temporal, fleet }: Session, cluster: string) =>
  openBandwidthModel(temporal, { fleet, cluster });

const registryFor = (context: CommandContext, fleet: string, cluster: string) =>
  openRegistry(modelDirOf(storeDirOf(fleetStateDir(context.io.env, fleet)), cluster));

async function checkCluster({ client, fleet }: Session, cluster: string): Promise<void> {
  const { shape } = await client.fleet();
  if (!shape.clusters.some(({ id }) => id === cluster)) throw noCluster(fleet, cluster);
}

const noCluster = (fleet: string, cluster: string): OrbweaverError =>
  new OrbweaverError(
    "NOT_FOUND",
    `fleet ${fleet} has no cluster ${cluster}; \`orbweaver fleet show\` lists its clusters`,
  );
