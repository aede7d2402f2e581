/** @file `submit --cron`: a job again and again, by a schedule of the submit service. */

import type { JobFile } from "../../client/index.ts";
import { openCronClient } from "../../client/cron-client.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { OVERLAPS, type Overlap } from "../../protocol/cron.ts";
import { serviceFor } from "../up/own-service.ts";
import type { CommandContext } from "./command-context.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";

export interface CronFlags extends ConnectionOptionValues {
  readonly cron?: string;
  readonly timeZone?: string;
  readonly overlap?: string;
  readonly key?: string;
  readonly json?: boolean;
  readonly queueAnyway?: boolean;
}

/** Throws BAD_INPUT for flags of schedules without one. */
export function checkCronFlags({ cron, timeZone, overlap }: CronFlags): void {
  if (cron === undefined && (timeZone !== undefined || overlap !== undefined))
    throw new OrbweaverError(
      "BAD_INPUT",
      "--time-zone and --overlap are of a schedule. Add --cron, or leave them out.",
    );
}

export async function submitCron(
  context: CommandContext,
  jobs: readonly { readonly job: JobFile | string }[],
  {
    cron: expression = "",
    timeZone,
    overlap = "skip",
    key,
    json,
    queueAnyway,
    ...values
  }: CronFlags,
): Promise<void> {
  const [only, ...more] = jobs;
  if (only === undefined || more.length > 0)
    throw new OrbweaverError("BAD_INPUT", "--cron takes one job. Submit the others one by one.");
  const crons = openCronClient(await serviceFor(context, values));
  const made = await crons.submit({
    job: only.job,
    expression,
    timeZone: timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    overlap: overlapOf(overlap),
    ...(key !== undefined && { key }),
    ...(queueAnyway === true && { isQueuedAnyway: true }),
  });
  if (!made.isNew) context.say(`${made.cron} had been submitted before; nothing was changed`);
  if (json === true) context.printJson(made);
  else context.print(made.cron);
}

function overlapOf(text: string): Overlap {
  const known = OVERLAPS.find((each) => each === text);
  if (known !== undefined) return known;
  throw new OrbweaverError(
    "BAD_INPUT",
    `--overlap ${JSON.stringify(text)} is not known. Use ${OVERLAPS.join(", ")}.`,
  );
}
