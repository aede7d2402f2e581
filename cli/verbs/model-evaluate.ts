/** @file `orbweaver model evaluate`: how far a version is off what was measured lately, measurement by measurement. */

import type { Command } from "commander";
import { candidateOf } from "../../activities/model-activities.ts";
import { directoryStore, type FleetDetails } from "../../activities/store.ts";
import { openBandwidthModel } from "../../client/bandwidth-model.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import { clusterDomain } from "../../models/lookup.ts";
import { modelDirOf, openRegistry } from "../../models/registry.ts";
import { fleetStateDir } from "../../workers/state.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { counted } from "../duration.ts";
import { widthOf } from "../io.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { percentText } from "../model-text.ts";
import { gpusText } from "../place.ts";
import { tableText, type Column } from "../table.ts";
import { storeDirOf } from "../up/places.ts";

type Values = ConnectionOptionValues & { readonly json?: boolean };

/** The worst of them, on a screen. */
const SHOWN = 15;

export function modelEvaluateVerb(kit: Kit): Command {
  const verb = kit
    .verb("evaluate")
    .summary("hold a version against what was measured")
    .description(
      "Predicts what the cluster's model keeps of measurements, and shows how far off it is. Many of them the version\n" +
        "may have learned from: what it was not shown is in its manifest (`orbweaver model show`).",
    )
    .argument("<cluster>", "the cluster")
    .argument("[version]", "e.g. v7 (else the one that serves)")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver model evaluate eu-1", "is the version that serves still right"]]),
    )
    .action(async (cluster: string, version: string | undefined, values: Values) => {
      await kit.withSession(values, async ({ client, temporal, fleet }) => {
        const ledger = await client.fleet();
        const shape = ledger.shape.clusters.find(({ id }) => id === cluster);
        const wanted =
          version ?? [...(ledger.models ?? [])].find(([id]) => id === cluster)?.[1].version;
        if (shape === undefined || wanted === undefined) {
          throw new OrbweaverError(
            "NOT_FOUND",
            shape === undefined
              ? `fleet ${fleet} has no cluster ${cluster}; \`orbweaver fleet show\` shows those that it has`
              : `no version serves in ${cluster} yet. Name one, or see \`orbweaver model list\`.`,
          );
        }
        const storeDir = storeDirOf(fleetStateDir(kit.io.env, fleet));
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
        // Loaded here: it brings a runtime for models along.
        const { surrogateLearner } = await import("../../models/surrogate-learner.ts");
        const files = await registry.files(manifest);
        const predictor = surrogateLearner.open(files, { domain, version: wanted });
        const kept = await openBandwidthModel(temporal, { fleet, cluster }).samples();
        const rows = kept.flatMap((sample) => {
          const candidate = candidateOf(domain, sample.gpus);
          const [predictedGbs] = candidate === undefined ? [] : predictor.predict([candidate]);
          if (predictedGbs === undefined) return [];
          const { jobId, gpus, gbs } = sample;
          return [{ jobId, gpus, gbs, predictedGbs, error: Math.abs(predictedGbs - gbs) / gbs }];
        });
        const mape = rows.reduce((sum, { error }) => sum + error, 0) / rows.length;
        if (values.json === true) {
          kit.printJson({
            fleet,
            cluster,
            version: wanted,
            ...(rows.length > 0 && { mape }),
            measurements: rows,
          });
          return;
        }
        if (rows.length === 0) {
          kit.print(`nothing was measured in ${cluster} that ${wanted} could be held against`);
          return;
        }
        kit.print(
          `${wanted} is ${percentText(mape)} off on ${counted(rows.length, "measurement")}; the worst:`,
        );
        const worst = [...rows].sort((a, b) => b.error - a.error).slice(0, SHOWN);
        kit.print(
          tableText(
            COLUMNS,
            worst.map(({ jobId, gpus, gbs, predictedGbs, error }) => [
              jobId,
              gpusText(gpus).replaceAll("\n", " "),
              gbs.toFixed(1),
              predictedGbs.toFixed(1),
              percentText(error),
            ]),
            widthOf(kit.io.stdout),
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
