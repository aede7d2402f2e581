/** @file What a job file would do if it were submitted now, folded on a copy of the followed ledger, as sentences. Submits nothing. */

import { readJob } from "../../client/index.ts";
import { runBandwidthText } from "../../domain/lease/bandwidth-note.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { counted, durationText } from "../../page/text.ts";
import type { WhatIfAnswer } from "../../page/wire.ts";
import {
  trialRequest,
  whatIf,
  withoutStandIn,
  type WhatIf,
} from "../../scheduling/explain/what-if.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { masksOf } from "./rows.ts";

/** `file`: a job file, as YAML or JSON. */
export function whatIfAnswer(ledger: Ledger, file: string, nowMs: number): WhatIfAnswer {
  try {
    const { spec } = readJob(file, "job.yaml");
    const held = spec.isHeld ? "Once it is released. " : "";
    const { message, ...more } = told(whatIf(ledger, trialRequest(spec, nowMs), { nowMs }), nowMs);
    return { name: spec.name, ...more, message: `${held}${message}` };
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    return { name: "", kind: "wrong", message: error.message, facts: [] };
  }
}

type Told = Omit<WhatIfAnswer, "name">;
type Facts = WhatIfAnswer["facts"];

function told(answer: WhatIf, nowMs: number): Told {
  const { kind } = answer;
  switch (kind) {
    case "starts": {
      const { gpus, slots, reason, bandwidth } = answer;
      const facts: Facts = [
        ...(slots === undefined ? [] : [["Tasks at once", String(slots)] as const]),
        ...(bandwidth === undefined
          ? []
          : [["Bandwidth", runBandwidthText({ bandwidth }) ?? ""] as const]),
      ];
      return { kind, message: reason, gpus: masksOf(gpus), facts };
    }
    case "preempts": {
      const { gpus, victims } = answer;
      const facts = victims.map(
        ({ jobId, lostGpuSeconds, reason }) =>
          ["Preempts", `${jobId}, which loses ${gpuSeconds(lostGpuSeconds)}: ${reason}`] as const,
      );
      const message = `It would start when ${counted(victims.length, "job")} had been preempted for it.`;
      return { kind, message, gpus: masksOf(gpus), facts };
    }
    case "waits":
      return { kind, ...waitsText(answer, nowMs) };
    case "never": {
      const { reason, changes } = answer;
      const facts = changes.map(({ text }) => ["Would change it", text] as const);
      return { kind, message: `${reason.code}: ${withoutStandIn(reason.message)}`, facts };
    }
    case "refused":
      return { kind, message: answer.message, facts: [] };
  }
}

function waitsText(
  { answer, forecast, preempts }: Extract<WhatIf, { kind: "waits" }>,
  nowMs: number,
): Omit<Told, "kind"> {
  const { position, waiting, reason } = answer;
  const inTime = (atMs: number): string =>
    atMs === Infinity ? "an unknown time" : durationText(atMs - nowMs);
  return {
    message: `${reason.code}: ${withoutStandIn(reason.message)}`,
    facts: [
      ["Place", `${String(position)} of ${String(waiting)} in the queue`],
      ...(reason.holders.length === 0 ? [] : [["Held by", reason.holders.join(", ")] as const]),
      ...(forecast === undefined
        ? []
        : [
            [
              "Starts",
              forecast.fromMs === Infinity
                ? "not within 30 days"
                : `in ${inTime(forecast.fromMs)} to ${inTime(forecast.toMs)} (80 %)`,
            ] as const,
          ]),
      ...(preempts === undefined
        ? []
        : [
            [
              "Preempts",
              `${preempts.victims.map(({ jobId }) => jobId).join(", ")} in ${inTime(preempts.atMs)}, unless it starts before`,
            ] as const,
          ]),
    ],
  };
}

const gpuSeconds = (lost: number): string => `${counted(Math.round(lost), "GPU-second")} of work`;
