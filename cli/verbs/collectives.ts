/** @file `orbweaver collectives …`: what was learned of NCCL's choices: show, explain, export, reset. */

import type { Command } from "commander";
import { openCollectives, placeOf } from "../../client/collectives.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import type { PublishedPolicy } from "../../domain/collective-evidence.ts";
import { ncclCsv } from "../../scheduling/collectives/nccl-csv.ts";
import { parsePolicy } from "../../scheduling/collectives/policy-file.ts";
import type { CollectiveTunerView } from "../../workflows/messages.ts";
import { explanationText, listText } from "../collectives-text.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { widthOf } from "../io.ts";
import { helpEnd, type Kit } from "../kit.ts";
import type { Session } from "../session.ts";

type Values = ConnectionOptionValues & { readonly json?: boolean };

export function collectivesVerb(kit: Kit): Command {
  return kit
    .verb("collectives")
    .summary("look after what was learned of NCCL's choices")
    .description(
      "For each kind of communicator (cluster, hosts and GPUs, NVLink) there is a tuner that learns from jobs with\n" +
        "`collectives: {tune: true}` which algorithm and protocol of NCCL is the best for which message sizes.",
    )
    .addCommand(showVerb(kit))
    .addCommand(explainVerb(kit))
    .addCommand(exportVerb(kit))
    .addCommand(resetVerb(kit))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver collectives show", "where something was learned, and what came of it"],
        ["orbweaver collectives explain eu-1/2x4-A100-nvlink", "why each choice is as it is"],
      ]),
    );
}

function showVerb(kit: Kit): Command {
  const verb = kit
    .verb("show")
    .summary("list the tuners and their policies")
    .description("Lists every kind of communicator that was tuned, with its policy in one line.")
    .argument("[cluster]", "only of this cluster")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver collectives show eu-1 --json", "for a script"]]))
    .action(async (cluster: string | undefined, values: Values) => {
      await kit.withSession(values, async (session) => {
        const tuners = (await collectivesOf(session).list()).filter(
          ({ topology }) => cluster === undefined || topology.cluster === cluster,
        );
        if (values.json === true) kit.printJson({ fleet: session.fleet, tuners });
        else kit.print(listText(tuners, widthOf(kit.io.stdout)));
      });
    });
  return addConnectionOptions(verb);
}

function explainVerb(kit: Kit): Command {
  const verb = kit
    .verb("explain")
    .summary("say why each choice is as it is")
    .description(
      "Shows, for each collective and band of sizes, the choice, the typical time of a step under each\n" +
        "algorithm and protocol that was tried, and why the choice was made.",
    )
    .argument("<place>", "CLUSTER/CLASS, as `show` lists it")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver collectives explain eu-1/2x4-A100-nvlink", "what was tried there"]]),
    )
    .action(async (place: string, values: Values) => {
      await kit.withSession(values, async (session) => {
        const view = await collectivesOf(session).view(place);
        if (values.json === true) kit.printJson(view);
        else kit.print(explanationText(view, widthOf(kit.io.stdout)));
      });
    });
  return addConnectionOptions(verb);
}

type ExportValues = Values & {
  readonly csv?: boolean;
  readonly env?: boolean;
  readonly overlap: boolean;
};

function exportVerb(kit: Kit): Command {
  const verb = kit
    .verb("export")
    .summary("write a policy for use without Orbweaver")
    .description(
      "Writes the policy: as the file that Orbweaver's plugin reads, with --csv in the form of the example tuner\n" +
        "plugin in NVIDIA's NCCL repository, with --env as the variable that puts it in force from the first call.",
    )
    .argument("<place>", "CLUSTER/CLASS, as `show` lists it")
    .option("--csv", "the form that NVIDIA's example tuner plugin reads")
    .option("--env", "a line for the shell; give it to all ranks alike")
    .option("--no-overlap", "that of jobs that do not compute while they communicate")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver collectives export eu-1/2x4-A100-nvlink --csv", "for NCCL_TUNER_CONFIG_FILE"],
        ["orbweaver collectives export eu-1/2x4-A100-nvlink --env", "for mpirun -x"],
      ]),
    )
    .action(async (place: string, values: ExportValues) => {
      if (values.csv === true && values.env === true)
        throw new OrbweaverError("BAD_INPUT", "--csv and --env are two forms; write one of them");
      await kit.withSession(values, async (session) => {
        const view = await collectivesOf(session).view(place);
        const published = policyIn(view, values.overlap);
        const text = formed(published, values);
        const { version } = published;
        if (values.json === true) kit.printJson({ place, version, text });
        else kit.print(text.trimEnd());
      });
    });
  return addConnectionOptions(verb);
}

function policyIn(view: CollectiveTunerView, hasOverlap: boolean): PublishedPolicy {
  const found = view.worlds.find((world) => world.hasOverlap === hasOverlap)?.policy;
  if (found !== undefined && found.version > 0) return found;
  const kind = hasOverlap ? "with overlap" : "without overlap";
  throw new OrbweaverError(
    "NOT_FOUND",
    `there is no policy of ${placeOf(view)} for jobs ${kind}; \`orbweaver collectives explain ${placeOf(view)}\` shows those that there are`,
  );
}

function formed({ text }: PublishedPolicy, { csv, env }: ExportValues): string {
  if (env === true) return `export ORBWEAVER_COLLECTIVES_SEALED='${text.replaceAll("\n", ";")}'`;
  if (csv !== true) return text;
  const parsed = parsePolicy(text, "the policy");
  if (parsed.kind === "parsed") return ncclCsv(parsed.policy);
  throw new OrbweaverError(
    "BAD_INPUT",
    "the policy is of another version of Orbweaver; use the command of that version",
  );
}

function resetVerb(kit: Kit): Command {
  const verb = kit
    .verb("reset")
    .summary("forget what was measured, and try everything again")
    .description(
      "Forgets what was measured for one kind of communicator. Versions of policies go on.",
    )
    .argument("<place>", "CLUSTER/CLASS, as `show` lists it")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver collectives reset eu-1/2x4-A100-nvlink", "after the network was changed"],
      ]),
    )
    .action(async (place: string, values: Values) => {
      await kit.withSession(values, async (session) => {
        const view = await collectivesOf(session).reset(place);
        if (values.json === true) kit.printJson(view);
        else kit.print(`${place} is forgotten; the next jobs there try everything again`);
      });
    });
  return addConnectionOptions(verb);
}

const collectivesOf = ({ temporal, fleet }: Session) => openCollectives(temporal, fleet);
