/** @file `orbweaver model …`: the bandwidth models of a fleet: versions, what they learned from, training, rollback, evaluation. */

import type { Command } from "commander";
import { openBandwidthModel } from "../../client/bandwidth-model.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import type { ModelManifest } from "../../domain/model-manifest.ts";
import { modelDirOf, openRegistry } from "../../models/registry.ts";
import type { BandwidthModelView } from "../../workflows/messages.ts";
import { fleetStateDir } from "../../workers/state.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { counted, durationText, timeText } from "../duration.ts";
import { widthOf } from "../io.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { percentText } from "../model-text.ts";
import type { Session } from "../session.ts";
import { factsText, tableText, type Column } from "../table.ts";
import { storeDirOf } from "../up/places.ts";
import { modelEvaluateVerb } from "./model-evaluate.ts";

type Values = ConnectionOptionValues & { readonly json?: boolean };

export function modelVerb(kit: Kit): Command {
  return kit
    .verb("model")
    .summary("look after the bandwidth models")
    .description(
      "Each cluster has a model of its collective bandwidth that learns from what jobs measure. Training runs on a\n" +
        "solver worker; a version serves only when it is better than the one that serves. Versions are folders in\n" +
        "the fleet's store: list, show and evaluate read them there.",
    )
    .addCommand(listVerb(kit))
    .addCommand(showVerb(kit))
    .addCommand(trainVerb(kit))
    .addCommand(rollbackVerb(kit))
    .addCommand(modelEvaluateVerb(kit))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver model list", "which versions there are, and which serve"],
        ["orbweaver model rollback eu-1", "back to the version that served before"],
      ]),
    );
}

function listVerb(kit: Kit): Command {
  const verb = kit
    .verb("list")
    .summary("list the versions of every cluster")
    .description("Lists the versions that are in the store, and which one the fleet uses.")
    .argument("[cluster]", "only this cluster's")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver model list eu-1 --json", "one cluster, for a script"]]),
    )
    .action(async (only: string | undefined, values: Values) => {
      await kit.withSession(values, async (session) => {
        const ledger = await session.client.fleet();
        const clusters = ledger.shape.clusters.filter(
          ({ id }) => only === undefined || id === only,
        );
        if (clusters.length === 0) throw noCluster(session.fleet, only ?? "");
        const rows = await Promise.all(
          clusters.map(async ({ id }) => ({
            cluster: id,
            serving: ledger.models?.get(id)?.version,
            versions: await registryFor(kit, session.fleet, id).list(),
          })),
        );
        if (values.json === true) kit.printJson({ fleet: session.fleet, clusters: rows });
        else kit.print(listText(rows, widthOf(kit.io.stdout)));
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

function showVerb(kit: Kit): Command {
  const verb = kit
    .verb("show")
    .summary("show how a cluster's model stands, or one version")
    .description(
      "Shows which version serves, what was measured since, drift, outliers and the last training; with a version, its manifest.",
    )
    .argument("<cluster>", "the cluster")
    .argument("[version]", "e.g. v7")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver model show eu-1", "is it learning, does something drift"],
        ["orbweaver model show eu-1 v7", "from what v7 was made, and how good it is"],
      ]),
    )
    .action(async (cluster: string, version: string | undefined, values: Values) => {
      await kit.withSession(values, async (session) => {
        const ledger = await session.client.fleet();
        if (!ledger.shape.clusters.some(({ id }) => id === cluster))
          throw noCluster(session.fleet, cluster);
        if (version !== undefined) {
          const manifest = await registryFor(kit, session.fleet, cluster).manifest(version);
          if (manifest === undefined) {
            throw new OrbweaverError(
              "NOT_FOUND",
              `there is no version ${version} of the bandwidth model of ${cluster} in the store of this machine; see \`orbweaver model list\``,
            );
          }
          if (values.json === true) kit.printJson(manifest);
          else kit.print(manifestText(manifest));
          return;
        }
        const view = await modelOf(session, cluster).view();
        const used = [...(ledger.models ?? [])].find(([id]) => id === cluster)?.[1].version;
        if (values.json === true) kit.printJson({ fleet: session.fleet, cluster, used, ...view });
        else kit.print(viewText({ cluster, used, view }, kit.io.nowMs()));
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

function trainVerb(kit: Kit): Command {
  const verb = kit
    .verb("train")
    .summary("train a version now")
    .description(
      "Trains with what was measured and lets the version serve if it is better; ends the hold of a rollback.\n" +
        "Needs a worker of role solver. Exit status 1 when no new version serves.",
    )
    .argument("<cluster>", "the cluster")
    .option("--from-nothing", "do not go on from the version that serves")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver model train eu-1", "learn from the last measurements"]]),
    )
    .action(async (cluster: string, values: Values & { readonly fromNothing?: boolean }) => {
      await kit.withSession(values, async (session) => {
        await checkCluster(session, cluster);
        kit.say(`training for ${cluster} on a solver worker`);
        const isFromNothing = values.fromNothing === true;
        const note = await modelOf(session, cluster).train({ isFromNothing });
        if (values.json === true) kit.printJson({ fleet: session.fleet, cluster, ...note });
        else kit.print(`${note.version ?? cluster} ${note.kind}: ${note.reason}`);
        if (note.kind !== "serves") kit.exitWith(1);
      });
    });
  return addConnectionOptions(verb);
}

function rollbackVerb(kit: Kit): Command {
  const verb = kit
    .verb("rollback")
    .summary("let a former version serve")
    .description(
      "Lets the version serve that did before, or one that is named. Nothing is trained from then on\n" +
        "until `orbweaver model train` asks for it. Needs a worker of role solver.",
    )
    .argument("<cluster>", "the cluster")
    .option("--to <version>", "this one, e.g. v7")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver model rollback eu-1", "the one before"],
        ["orbweaver model rollback eu-1 --to v3", "one that is known to be good"],
      ]),
    )
    .action(async (cluster: string, values: Values & { readonly to?: string }) => {
      await kit.withSession(values, async (session) => {
        await checkCluster(session, cluster);
        const serving = await modelOf(session, cluster).rollback(values.to);
        if (values.json === true) kit.printJson({ fleet: session.fleet, cluster, ...serving });
        else kit.print(`${serving.version} serves in ${cluster}`);
      });
    });
  return addConnectionOptions(verb);
}

const modelOf = ({ temporal, fleet }: Session, cluster: string) =>
  openBandwidthModel(temporal, { fleet, cluster });

export const registryFor = (kit: Kit, fleet: string, cluster: string) =>
  openRegistry(modelDirOf(storeDirOf(fleetStateDir(kit.io.env, fleet)), cluster));

async function checkCluster({ client, fleet }: Session, cluster: string): Promise<void> {
  const { shape } = await client.fleet();
  if (!shape.clusters.some(({ id }) => id === cluster)) throw noCluster(fleet, cluster);
}

export const noCluster = (fleet: string, cluster: string): OrbweaverError =>
  new OrbweaverError(
    "NOT_FOUND",
    `fleet ${fleet} has no cluster ${cluster}; \`orbweaver fleet show\` shows those that it has`,
  );
