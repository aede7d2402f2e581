/** @file `orbweaver collectives …`: the learned NCCL choices: show, explain, export, reset. */

import type { Command } from "commander";
import { openCollectives, placeOf } from "../../../client/collectives.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import type { PublishedPolicy } from "../../../domain/bandwidth/collective-evidence.ts";
import { ncclCsv } from "../../../tuning/nccl-csv.ts";
import { parsePolicy } from "../../../tuning/policy-file.ts";
import type { CollectiveTunerView } from "../../../protocol/messages.ts";
import { explanationText, listText } from "../../text/collectives-text.ts";
import { addConnectionOptions } from "../../command/connection-options.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import type { Session } from "../../command/session.ts";
import { answerInSession, type AnswerValues } from "../../command/answer.ts";

export function collectivesVerb(context: CommandContext): Command {
  return context
    .verb("collectives")
    .summary("manage the learned NCCL choices")
    .description(
      "Each kind of communicator (cluster, hosts and GPUs, NVLink) has a tuner. It learns from jobs with `collectives: {tune: true}` which NCCL algorithm and protocol is best for which message sizes.",
    )
    .addCommand(showVerb(context))
    .addCommand(explainVerb(context))
    .addCommand(exportVerb(context))
    .addCommand(resetVerb(context))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver collectives show", "tuners with their policies"],
        ["orbweaver collectives explain eu-1/2x4-A100-nvlink", "reasons for each choice"],
      ]),
    );
}

function showVerb(context: CommandContext): Command {
  const verb = context
    .verb("show")
    .summary("list the tuners and their policies")
    .description("Lists every kind of communicator that was tuned, with its policy in one line.")
    .argument("[cluster]", "only this cluster")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver collectives show eu-1 --json", "for a script"]]))
    .action(async (cluster: string | undefined, values: AnswerValues) => {
      await answerInSession(context, values, async (session) => {
        const tuners = (await collectivesOf(session).list()).filter(
          ({ topology }) => cluster === undefined || topology.cluster === cluster,
        );
        return {
          document: { fleet: session.fleet, tuners },
          text: () => listText(tuners, widthOf(context.io.stdout)),
        };
      });
    });
  return addConnectionOptions(verb);
}

function explainVerb(context: CommandContext): Command {
  const verb = context
    .verb("explain")
    .summary("explain the choices of a tuner")
    .description(
      "Shows, for each collective and range of message sizes, the chosen algorithm and protocol, the typical step time under each one that was tried, and the reason for the choice.",
    )
    .argument("<place>", "CLUSTER/CLASS, as `show` lists it")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver collectives explain eu-1/2x4-A100-nvlink", "all choices that were tried"],
      ]),
    )
    .action(async (place: string, values: AnswerValues) => {
      await answerInSession(context, values, async (session) => {
        const view = await collectivesOf(session).view(place);
        return { document: view, text: () => explanationText(view, widthOf(context.io.stdout)) };
      });
    });
  return addConnectionOptions(verb);
}

type ExportValues = AnswerValues & {
  readonly csv?: boolean;
  readonly env?: boolean;
  readonly overlap: boolean;
};

function exportVerb(context: CommandContext): Command {
  const verb = context
    .verb("export")
    .summary("write a policy for use without Orbweaver")
    .description(
      "Writes the policy as a file for Orbweaver's plugin; with --csv, in the format of the example tuner plugin in NVIDIA's NCCL repository; with --env, as the environment variable that applies it from the first call.",
    )
    .argument("<place>", "CLUSTER/CLASS, as `show` lists it")
    .option("--csv", "format of NVIDIA's example tuner plugin")
    .option("--env", "a line for the shell; set it for all ranks")
    .option("--no-overlap", "policy for jobs that do not compute during communication")
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
        throw new OrbweaverError(
          "BAD_INPUT",
          "--csv and --env name two output formats. Give only one of them.",
        );
      await answerInSession(context, values, async (session) => {
        const view = await collectivesOf(session).view(place);
        const published = policyIn(view, values.overlap);
        const text = formed(published, values);
        const { version } = published;
        return { document: { place, version, text }, text: () => text.trimEnd() };
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
    `there is no policy of ${placeOf(view)} for jobs ${kind}; \`orbweaver collectives explain ${placeOf(view)}\` lists the existing policies`,
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

function resetVerb(context: CommandContext): Command {
  const verb = context
    .verb("reset")
    .summary("forget the measurements of a tuner")
    .description(
      "Forgets the measurements for one kind of communicator, so that jobs try every choice again. The version numbers of policies continue.",
    )
    .argument("<place>", "CLUSTER/CLASS, as `show` lists it")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        [
          "orbweaver collectives reset eu-1/2x4-A100-nvlink",
          "start again after a change of the network",
        ],
      ]),
    )
    .action(async (place: string, values: AnswerValues) => {
      await answerInSession(context, values, async (session) => {
        const view = await collectivesOf(session).reset(place);
        return {
          document: view,
          text: () =>
            `the measurements of ${place} are forgotten; the next jobs there try every choice again`,
        };
      });
    });
  return addConnectionOptions(verb);
}

const collectivesOf = ({ temporal, fleet }: Session) => openCollectives(temporal, fleet);
