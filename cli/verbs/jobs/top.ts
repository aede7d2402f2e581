/** @file `orbweaver top JOB`: raises a job's priority above that of its tenant's other waiting jobs of the class. */

import type { Command } from "commander";
import { OrbweaverClient, type JobHandle } from "../../../client/index.ts";
import { MAX_PRIORITY } from "../../../domain/job/job.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { amendOne } from "../../command/amend-job.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob, type JobChange } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import type { FleetSession } from "../../command/service-session.ts";

interface TopValues extends ConnectionOptionValues {
  readonly json?: boolean;
}

export function topVerb(context: CommandContext): Command {
  const verb = context
    .verb("top")
    .summary("put a waiting job before its tenant's other jobs")
    .description(
      "Raises the priority of a waiting job to one more than the highest of its tenant's other waiting jobs of the same class, as `orbweaver update --priority` would. Shares of tenants, the order of classes and reserved GPUs stay as they are, so no other tenant's job is overtaken.",
    )
    .argument("<job>", "job id")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver top train-7", "first of its tenant and class"]]))
    .action(async (jobId: string, values: TopValues) => {
      await forEachJob(context, { jobIds: [jobId], values }, (job, session) =>
        toTop(context, job, session),
      );
    });
  return addServiceOptions(verb);
}

async function toTop(
  context: CommandContext,
  job: JobHandle,
  session: FleetSession,
): Promise<JobChange> {
  const { jobId, spec, fleet, state } = await job.view();
  if (state !== "pending" || spec === undefined)
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `job ${jobId} is ${state}; only a waiting job has a place in the queue`,
    );
  const { client, direct } = session;
  const there = direct ? new OrbweaverClient(direct.temporal, { fleet }) : client;
  const { requests } = await there.fleet();
  const others = [...requests.values()].filter(
    (request) =>
      request.jobId !== jobId && request.tenant === spec.tenant && request.class === spec.class,
  );
  const highest = Math.max(-MAX_PRIORITY - 1, ...others.map(({ priority }) => priority));
  if (highest >= MAX_PRIORITY) {
    const first = others.filter(({ priority }) => priority >= MAX_PRIORITY);
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `no priority is above that of ${first[0]?.jobId ?? "another job"}, ${String(MAX_PRIORITY)}. Lower that one first.`,
    );
  }
  const priority = Math.max(spec.priority, highest + 1);
  return amendOne(context, { job }, { priority });
}
