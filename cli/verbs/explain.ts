/** @file `orbweaver explain JOB`: why it waits, with the fleet's numbers of this moment, or why it runs where it runs. */

import type { Command } from "commander";
import type { JobExplanation, PendingReason } from "../../client/index.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { durationText } from "../duration.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { gpusText } from "../place.ts";
import { factsText } from "../table.ts";

export function explainVerb(kit: Kit): Command {
  const verb = kit
    .verb("explain")
    .summary("say why a job waits, or runs where it runs")
    .description(
      "Asks the fleet why a job waits: the code, the numbers behind it, who holds what it needs, its place in\n" +
        "the queue and what would change the answer. Of a running job: why its GPUs were picked.",
    )
    .argument("<job>", "job id")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver explain train-7", "why does it not start?"]]))
    .action(async (jobId: string, values: ConnectionOptionValues & { readonly json?: boolean }) => {
      await kit.withSession(values, async ({ client }) => {
        const explanation = await client.job(jobId).explain();
        if (values.json === true) kit.printJson(explanation);
        else kit.print(explanationText(explanation, kit.io.nowMs()));
      });
    });
  return addConnectionOptions(verb);
}

export function explanationText({ view, fleet }: JobExplanation, nowMs: number): string {
  const { jobId, state } = view;
  if (fleet?.kind === "waiting") {
    const { position, waiting, requestedAtMs, reason } = fleet;
    return [
      `${jobId} waits: ${reason.code}`,
      `  ${reason.message}`,
      reasonFacts(reason, [
        ["place", `${String(position)} of ${String(waiting)} in the queue`],
        ["waits for", durationText(nowMs - requestedAtMs)],
      ]),
    ].join("\n");
  }
  const last = view.attempts.at(-1);
  if ((state === "running" || state === "stopping") && last !== undefined) {
    return [
      `${jobId} is ${state}: ${last.reason}`,
      factsText([
        ["on", gpusText(last.gpus)],
        ["lease", last.leaseId],
        ["waited", durationText(last.grantedAtMs - last.requestedAtMs)],
        [
          "expected",
          last.predictedGBs === undefined
            ? undefined
            : `${last.predictedGBs.toFixed(1)} GB/s of collective bandwidth`,
        ],
      ]),
    ].join("\n");
  }
  if (state === "held") {
    return `${jobId} is held: OnHold\n  Its owner keeps it from starting. \`orbweaver release ${jobId}\` ends that.`;
  }
  if (state === "pending") return pendingText({ view, ...(fleet !== undefined && { fleet }) });
  const cause = last?.cause;
  return cause === undefined
    ? `${jobId} has ${state === "cancelled" ? "been cancelled" : state}`
    : `${jobId} has ${state}: ${cause.code}\n  ${cause.message}`;
}

/** The fleet has no request of a job that waits: it says so itself, or it is between two runs. */
function pendingText({ view, fleet }: JobExplanation): string {
  const { jobId, pending } = view;
  if (pending !== undefined) {
    return [`${jobId} waits: ${pending.code}`, `  ${pending.message}`, reasonFacts(pending, [])]
      .join("\n")
      .trimEnd();
  }
  return fleet === undefined
    ? `${jobId} waits: NoFleet\n  Fleet ${view.fleet} does not answer. Start it with \`orbweaver up\`.`
    : `${jobId} waits: PendingEvaluation\n  Its request has not been decided on yet.`;
}

function reasonFacts(
  { numbers, holders, wakeOn }: PendingReason,
  more: readonly (readonly [string, string])[],
): string {
  const figures = Object.entries(numbers).map(([name, value]) => `${name} ${String(value)}`);
  return factsText([
    ...more,
    ["numbers", figures.length === 0 ? undefined : figures.join(", ")],
    ["held by", holders.length === 0 ? undefined : holders.join(", ")],
    ["changes on", wakeOn.join(", ")],
  ]).replace(/^/gm, "  ");
}
