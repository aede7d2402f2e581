/** @file Changes the settings of one job for a verb: refuses what could never start, and says what has changed and since when. */

import {
  OrbweaverClient,
  type AmendAnswer,
  type JobHandle,
  type JobSpec,
} from "../../client/index.ts";
import type { NewSettings } from "../../client/index.ts";
import { scheduledPart } from "../../domain/lease/gang-request.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { jobId, runId } from "../../domain/values/ids.ts";
import { neverOf } from "../../scheduling/explain/never.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { changeText } from "../text/amendments.ts";
import type { CommandContext } from "./command-context.ts";
import type { JobChange } from "./each-job.ts";
import type { FleetSession } from "./service-session.ts";

/** An id that no job has, because keys of jobs cannot begin with it. */
const NOBODY = jobId("orbweaver-amended");

/** `session` is the one of the verb; the job may be at another fleet. */
export async function amendOne(
  context: CommandContext,
  { job, session }: { readonly job: JobHandle; readonly session: FleetSession },
  settings: NewSettings,
): Promise<JobChange> {
  const isOtherDemand = (settings.tenant ?? settings.min ?? settings.max) !== undefined;
  const answer = await job.amend(settings, {
    onUnsigned: (why) => {
      context.say(
        `the change is not signed, so only hosts that trust the namespace run the job: ${why}`,
      );
    },
    ...(isOtherDemand && {
      check: async (spec) => {
        const { fleet } = await job.view();
        const { client, direct } = session;
        const there = direct ? new OrbweaverClient(direct.temporal, { fleet }) : client;
        refuseHopeless(await there.fleet(), spec, { id: job.jobId, nowMs: context.io.nowMs() });
      },
    }),
  });
  return { state: amendedText(answer), more: { amended: answer } };
}

/** Throws BAD_INPUT where not even the idle fleet would start the job. */
export function refuseHopeless(
  ledger: Ledger,
  spec: JobSpec,
  { id, nowMs }: { readonly id: string; readonly nowMs: number },
): void {
  const request = {
    ...scheduledPart(spec),
    jobId: NOBODY,
    runId: runId("amended"),
    seq: 1,
    submittedAtMs: nowMs,
    requestedAtMs: nowMs,
  };
  const { ledger: asked } = apply(ledger, {
    kind: "inbox",
    entries: [{ kind: "request", request }],
    nowMs,
  });
  const never = neverOf(asked, NOBODY, { nowMs });
  if (never === undefined) return;
  const { code, message } = never.reason;
  const why = message.replace(`${NOBODY} `, "it ");
  throw new OrbweaverError("BAD_INPUT", `job ${id} could never start then: ${code} ${why}`);
}

function amendedText({ changes, isForNextRun }: AmendAnswer): string {
  if (changes.length === 0) return "as it was";
  const isLater = isForNextRun && changes.some(({ setting }) => setting !== "deadlineMs");
  return `${changes.map(changeText).join(", ")}${isLater ? " (from its next run on)" : ""}`;
}
