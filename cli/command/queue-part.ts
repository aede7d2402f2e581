/** @file The flags that name a part of the queue. */

import type { Command } from "commander";
import { Option } from "commander";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import { readQueuePart, type QueuePart } from "../../domain/lease/queue-part.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";

export interface QueuePartValues {
  readonly tenant?: string;
  readonly class?: string;
}

export const addQueuePartOptions = (verb: Command): Command =>
  verb
    .addOption(
      new Option(
        "--tenant <name>",
        "the jobs of this tenant (default: all of the fleet)",
      ).conflicts("class"),
    )
    .addOption(new Option("--class <class>", "the jobs of this class").choices(JOB_CLASSES));

export function queuePartOf({ tenant, class: jobClass }: QueuePartValues): QueuePart {
  if (jobClass === undefined && tenant === undefined) return { kind: "fleet" };
  const part = readQueuePart(
    tenant === undefined ? { kind: "class", class: jobClass } : { kind: "tenant", tenant },
  );
  if (part !== undefined) return part;
  throw new OrbweaverError(
    "BAD_INPUT",
    `--tenant: ${JSON.stringify(tenant)} is no name of a tenant: letters, digits, ., _ and -, beginning with a letter or digit`,
  );
}
