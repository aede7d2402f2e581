/** @file `orbweaver move JOB…`: has another fleet run jobs that wait or run, without submitting them again. */

import type { Command } from "commander";
import { OrbweaverClient, type JobHandle } from "../../../client/index.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { refuseHopeless } from "../../command/amend-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob, type JobChange } from "../../command/each-job.ts";
import type { FleetSession } from "../../command/service-session.ts";

interface MoveValues extends ConnectionOptionValues {
  readonly json?: boolean;
}

export function moveVerb(context: CommandContext): Command {
  const verb = context
    .verb("move")
    .summary("have another fleet run jobs")
    .description(
      "Has another fleet of the same namespace run jobs that wait or run. A running job writes a checkpoint if it can and gives its GPUs back. Once its fleet holds nothing of it any more it asks the other one, with its age and the rest of its time limit, and stays there. What could never start there is refused, and so are job arrays, replicas of services, and jobs whose checkpoints lie in folders of their hosts. Who has moved it is shown by `status` and `explain`.",
    )
    .argument("<job...>", "job ids")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver move train-7 --fleet us", "go on at another site"],
        ["orbweaver status train-7", "where it is, and who has moved it"],
      ]),
    )
    .action(async (jobIds: readonly string[], values: MoveValues) => {
      const { fleet } = values;
      if (fleet === undefined || fleet === "")
        throw new OrbweaverError("BAD_INPUT", "no fleet is named. Write --fleet NAME.");
      await forEachJob(context, { jobIds, values }, (job, session) =>
        moveOne(context, { job, session }, fleet),
      );
    });
  return addServiceOptions(verb);
}

async function moveOne(
  context: CommandContext,
  { job, session: { direct } }: { readonly job: JobHandle; readonly session: FleetSession },
  fleet: string,
): Promise<JobChange> {
  const { spec } = await job.view();
  // A submit service answers for its own fleet alone.
  if (direct !== undefined && spec !== undefined) {
    const there = new OrbweaverClient(direct.temporal, { fleet });
    refuseHopeless(await there.fleet(), spec, { id: job.jobId, nowMs: context.io.nowMs() });
  }
  const answer = await job.move(fleet);
  return { state: `${answer.from} → ${answer.to}`, more: { moved: answer } };
}
