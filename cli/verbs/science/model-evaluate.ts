/** @file `orbweaver model evaluate`: the error of a version on recent measurements, one by one. */

import type { Command } from "commander";
import { candidateOf } from "../../../activities/model-cluster.ts";
import { directoryStore, type FleetDetails } from "../../../activities/store.ts";
import { openBandwidthModel } from "../../../client/bandwidth-model.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { clusterDomain } from "../../../models/bandwidth/lookup.ts";
import { modelDirOf, openRegistry } from "../../../models/bandwidth/registry.ts";
import { fleetStateDir } from "../../../workers/state.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { counted } from "../../terminal/duration.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { percentText } from "../../text/model-text.ts";
import { gpusText } from "../../text/place.ts";
import { tableText, type Column } from "../../terminal/table.ts";
import { storeDirOf } from "../../up/places.ts";

type Values = ConnectionOptionValues & { readonly json?: boolean };

/** Number of worst measurements in the text. */
const SHOWN = 15;

export function modelEvaluateVerb(context: CommandContext): Command {
  const verb = context
    .verb("evaluate")
    .summary("compare a version with measurements")
    .description(
      "Predicts the measurements that the cluster's model keeps, and shows the prediction error. The version may have been trained on many of them; its manifest (`orbweaver model show`) has the error on measurements that were held out.",
    )
    .argument("<cluster>", "the cluster")
    .argument("[version]", "e.g. v7 (default: the serving version)")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver model evaluate eu-1", "check the serving version"]]))
    .action(async (cluster: string, version: string | undefined, values: Values) => {
      await context.withSession(values, async ({ client, temporal, fleet }) => {
        const ledger = await client.fleet();
        const shape = ledger.shape.clusters.find(({ id }) => id === cluster);
        const wanted =
          version ?? [...(ledger.models ?? [])].find(([id]) => id === cluster)?.[1].version;
        if (shape === undefined || wanted === undefined) {
          throw new OrbweaverError(
            "NOT_FOUND",
            shape === undefined
              ? `fleet ${fleet} has no cluster ${cluster}; \`orbweaver fleet show\` lists its clusters`
              : `no version serves in ${cluster} yet. Name a version, or see \`orbweaver model list\`.`,
          );
        }
        const storeDir = storeDirOf(fleetStateDir(context.io.env, fleet));
        const { detailsHash } = ledger;
        const details =
          detailsHash === undefined
            ? undefined
            : await directoryStore(storeDir).get<FleetDetails>(detailsHash);
        const domain = clusterDomain(shape, new Map(details?.hosts ?? []));
        const registry = openRegistry(modelDirOf(storeDir, cluster));
        const manifest = await registry.manifest(wanted);
        if (manifest === undefined) {
          throw new OrbweaverError(
            "NOT_FOUND",
            `there is no version ${wanted} of the bandwidth model of ${cluster} in the store of this machine (${registry.dir})`,
          );
        }
        // Loaded on use, because it loads onnxruntime.
        const { surrogateLearner } = await import("../../../models/bandwidth/surrogate-learner.ts");
        const files = await registry.files(manifest);
        const predictor = surrogateLearner.open(files, { domain, version: wanted });
        const kept = await openBandwidthModel(temporal, { fleet, cluster }).samples();
        const rows = kept.flatMap((sample) => {
          const candidate = candidateOf(domain, sample.gpus);
          const { jobId, gpus, gbs, messages } = sample;
          const at = (messages && predictor.at?.(messages)) ?? predictor;
          const [predictedGbs] = candidate === undefined ? [] : at.predict([candidate]);
          if (predictedGbs === undefined) return [];
          return [
            {
              jobId,
              gpus,
              gbs,
              ...(messages && { messages }),
              predictedGbs,
              error: Math.abs(predictedGbs - gbs) / gbs,
            },
          ];
        });
        const mape = rows.reduce((sum, { error }) => sum + error, 0) / rows.length;
        if (values.json === true) {
          context.printJson({
            fleet,
            cluster,
            version: wanted,
            ...(rows.length > 0 && { mape }),
            measurements: rows,
          });
          return;
        }
        if (rows.length === 0) {
          context.print(`${cluster} has no measurements that ${wanted} could be compared with`);
          return;
        }
        context.print(
          `${wanted} is ${percentText(mape)} off on ${counted(rows.length, "measurement")}; the worst:`,
        );
        const worst = [...rows].sort((a, b) => b.error - a.error).slice(0, SHOWN);
        context.print(
          tableText(
            COLUMNS,
            worst.map(({ jobId, gpus, gbs, predictedGbs, error }) => [
              jobId,
              gpusText(gpus).replaceAll("\n", " "),
              gbs.toFixed(1),
              predictedGbs.toFixed(1),
              percentText(error),
            ]),
            widthOf(context.io.stdout),
          ),
        );
      });
    });
  return addConnectionOptions(verb);
}

const COLUMNS: readonly Column[] = [
  { title: "JOB", least: 8 },
  { title: "GPUS", least: 12 },
  { title: "MEASURED", isRight: true },
  { title: "EXPECTED", isRight: true },
  { title: "OFF", isRight: true },
];
