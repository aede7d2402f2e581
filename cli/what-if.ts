/** @file `orbweaver submit --what-if`: what would become of a job if it were submitted now; nothing is. */

import { readJob, type JobFile } from "../client/index.ts";
import { scheduledPart } from "../domain/gang-request.ts";
import { jobId, runId } from "../domain/ids.ts";
import { whatIf, type WhatIf } from "../scheduling/what-if.ts";
import { counted } from "./duration.ts";
import type { Kit } from "./kit.ts";
import { gpusText } from "./place.ts";
import { forecastDocument, forecastText, gpuTime, laterText } from "./prospect.ts";
import type { Session } from "./session.ts";
import { factsText } from "./table.ts";

/** No job has this id: keys of jobs may not begin with it. */
const NOBODY = jobId("orbweaver-what-if");

export interface Asked {
  readonly job: JobFile | string;
  readonly file?: string;
}

export async function tellWhatIf(
  kit: Kit,
  { client }: Pick<Session, "client">,
  { asked, isJson }: { readonly asked: readonly Asked[]; readonly isJson: boolean },
): Promise<void> {
  const ledger = await client.fleet();
  const nowMs = kit.io.nowMs();
  const found = asked.map(({ job, file }) => {
    const { spec } = readJob(job, file);
    const request = {
      ...scheduledPart(spec),
      jobId: NOBODY,
      runId: runId("what-if"),
      seq: 1,
      submittedAtMs: nowMs,
      requestedAtMs: nowMs,
    };
    return { name: spec.name, isHeld: spec.isHeld, answer: whatIf(ledger, request, { nowMs }) };
  });
  if (isJson) {
    const documents = found.map(({ name, answer }) => ({ name, ...whatIfDocument(answer) }));
    kit.printJson(documents.length === 1 ? documents[0] : { jobs: documents });
    return;
  }
  for (const { name, isHeld, answer } of found) {
    const held = isHeld ? " once it is released" : "";
    kit.print(whatIfText(`${name}${held}`, answer, nowMs));
  }
}

export function whatIfText(name: string, answer: WhatIf, nowMs: number): string {
  switch (answer.kind) {
    case "starts": {
      const { gpus, slots, reason } = answer;
      const what = slots === undefined ? "" : ` with ${counted(slots, "task")}`;
      return [
        `${name} would start at once${what}: ${reason}`,
        indented([["on", gpusText(gpus)]]),
      ].join("\n");
    }
    case "preempts": {
      const { gpus, victims } = answer;
      const losses = victims.map(
        ({ jobId: victim, lease, lostGpuSeconds, reason }) =>
          `${victim} (${lease}), which loses ${gpuTime(lostGpuSeconds)}: ${reason}`,
      );
      return [
        `${name} would start when ${counted(victims.length, "job")} had given up GPUs for it`,
        indented([
          ["preempts", losses.join("\n")],
          ["on", gpus.length === 0 ? undefined : gpusText(gpus)],
        ]),
      ].join("\n");
    }
    case "waits": {
      const { position, waiting, reason } = answer.answer;
      const { forecast, preempts } = answer;
      return [
        `${name} would wait: ${reason.code}`,
        `  ${told(reason.message)}`,
        indented([
          ["place", `${String(position)} of ${String(waiting)} in the queue`],
          ["held by", reason.holders.length === 0 ? undefined : reason.holders.join(", ")],
          ["starts", forecast && forecastText(forecast, nowMs)],
          ["preempts", preempts && laterText(preempts, nowMs)],
        ]),
      ].join("\n");
    }
    case "refused":
      return `${name} would be refused: ${answer.message}`;
  }
}

/** The stand-in's id means nothing to anybody. */
const told = (message: string): string => message.replace(`${NOBODY} `, "it ");

const indented = (facts: Parameters<typeof factsText>[0]): string =>
  factsText(facts).replace(/^/gm, "  ");

export function whatIfDocument(answer: WhatIf): object {
  if (answer.kind !== "waits") return answer;
  const { answer: fleet, forecast, preempts, kind } = answer;
  const { position, waiting, reason } = fleet;
  return {
    kind,
    position,
    waiting,
    reason: { ...reason, message: told(reason.message) },
    ...(forecast !== undefined && { forecast: forecastDocument(forecast) }),
    ...(preempts !== undefined && { preempts }),
  };
}
