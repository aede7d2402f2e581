/** @file `orbweaver submit --what-if`: predicts what would happen to a job if it were submitted now; submits nothing. */

import { weightsKeepers } from "../../client/gpu-use.ts";
import { readJob, type JobFile } from "../../client/index.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import { keepersByService, type KeepersOf } from "../../domain/lease/kept-weights.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { runBandwidthText } from "../../domain/lease/bandwidth-note.ts";
import {
  trialRequest,
  whatIf,
  withoutStandIn,
  type WhatIf,
} from "../../scheduling/explain/what-if.ts";
import { counted } from "../terminal/duration.ts";
import type { CommandContext } from "./command-context.ts";
import { givesWayText } from "../text/gives-way.ts";
import { gpusText } from "../text/place.ts";
import {
  forecastDocument,
  forecastText,
  gpuTime,
  laterText,
  neverFacts,
} from "../text/start-outlook.ts";
import { EXIT } from "../terminal/exit-code.ts";
import { learnedMessages } from "../planning/learned-messages.ts";
import { measuredSteps } from "../planning/measured-steps.ts";
import type { Session } from "./session.ts";
import { factsText } from "../terminal/table.ts";
import { storeDirOf } from "../up/places.ts";
import { fleetStateDir } from "../../workers/state.ts";

export interface Asked {
  readonly job: JobFile | string;
  readonly file?: string;
}

export async function tellWhatIf(
  context: CommandContext,
  session: Pick<Session, "client" | "fleet" | "temporal">,
  { asked, isJson }: { readonly asked: readonly Asked[]; readonly isJson: boolean },
): Promise<void> {
  const { client, fleet } = session;
  const ledger = await client.fleet();
  const nowMs = context.io.nowMs();
  // Loads models, with their native runtime.
  const { decidePortsHere } = await import("./decide-ports.ts");
  const storeDir = storeDirOf(fleetStateDir(context.io.env, fleet));
  const specs = asked.map(({ job, file }) => readJob(job, file).spec);
  // Only what is trained is asked for the price of a place.
  const clusters = specs.some(({ batch }) => batch !== undefined) ? ledger.shape.clusters : [];
  const measured = await measuredSteps(
    session,
    clusters.map(({ id }) => id),
  );
  const kept = [...measured.values()].flat();
  const messagesOf = await learnedMessages(
    session,
    ledger.models === undefined ? [] : ledger.shape.clusters.map(({ id }) => id),
  );
  const keepersOf = await keepersIn(session, ledger, { isAsked: specs.some(mayBeServed) });
  const ports = await decidePortsHere(ledger, { storeDir, kept, messagesOf, keepersOf });
  const found = specs.map((spec) => {
    return {
      name: spec.name,
      isHeld: spec.isHeld,
      answer: whatIf(ledger, trialRequest(spec, nowMs), { nowMs, ports }),
    };
  });
  if (found.some(({ answer }) => answer.kind === "never")) context.exitWith(EXIT.never);
  if (isJson) {
    const documents = found.map(({ name, answer }) => ({ name, ...whatIfDocument(answer) }));
    context.printJson(documents.length === 1 ? documents[0] : { jobs: documents });
    return;
  }
  for (const { name, isHeld, answer } of found) {
    const held = isHeld ? " once it is released" : "";
    context.print(whatIfText(`${name}${held}`, answer, nowMs));
  }
}

const mayBeServed = ({ class: jobClass, model }: JobSpec): boolean =>
  jobClass === "inference" && model !== undefined;

/** The hosts that keep weights of a service; none of clusters whose presence cannot be asked. */
async function keepersIn(
  { temporal, fleet }: Pick<Session, "temporal" | "fleet">,
  { shape, hosts }: Pick<Ledger, "shape" | "hosts">,
  { isAsked }: { readonly isAsked: boolean },
): Promise<KeepersOf> {
  const queueOf = (host: HostId): string | undefined => hosts.get(host)?.agent?.orderQueue;
  const found = await Promise.all(
    (isAsked ? shape.clusters : []).map(({ id: cluster }) =>
      weightsKeepers(temporal, { fleet, cluster, queueOf }).catch(() => []),
    ),
  );
  return keepersByService(found.flat());
}

function whatIfText(name: string, answer: WhatIf, nowMs: number): string {
  switch (answer.kind) {
    case "starts": {
      const { gpus, slots, reason, bandwidth } = answer;
      const what = slots === undefined ? "" : ` with ${counted(slots, "task")}`;
      return [
        `${name} would start at once${what}: ${reason}`,
        indented([
          ["on", gpusText(gpus)],
          ["bandwidth", bandwidth && runBandwidthText({ bandwidth })],
        ]),
      ].join("\n");
    }
    case "preempts": {
      const { gpus, victims } = answer;
      const losses = victims.map(
        ({ jobId: victim, lease, lostGpuSeconds, reason }) =>
          `${victim} (${lease}), which loses ${gpuTime(lostGpuSeconds)}: ${reason}`,
      );
      return [
        `${name} would start when ${counted(victims.length, "job")} had been preempted for it`,
        indented([
          ["preempts", losses.join("\n")],
          ["on", gpus.length === 0 ? undefined : gpusText(gpus)],
        ]),
      ].join("\n");
    }
    case "waits": {
      const { position, waiting, reason } = answer.answer;
      const { forecast, preempts, kept } = answer;
      return [
        `${name} would wait: ${reason.code}`,
        `  ${withoutStandIn(reason.message)}`,
        indented([
          ["place", `${String(position)} of ${String(waiting)} in the queue`],
          ["held by", reason.holders.length === 0 ? undefined : reason.holders.join(", ")],
          ["starts", forecast && forecastText(forecast, nowMs)],
          ["preempts", preempts && laterText(preempts, nowMs)],
          ["not yielding", givesWayText(kept, nowMs)],
        ]),
      ].join("\n");
    }
    case "never": {
      const { reason } = answer;
      return [
        `${name} would never start: ${reason.code}`,
        `  ${withoutStandIn(reason.message)}`,
        indented(neverFacts(answer)),
      ].join("\n");
    }
    case "refused":
      return `${name} would be refused: ${answer.message}`;
  }
}

const indented = (facts: Parameters<typeof factsText>[0]): string =>
  factsText(facts).replace(/^/gm, "  ");

function whatIfDocument(answer: WhatIf): object {
  if (answer.kind === "never") {
    const { kind, reason, changes } = answer;
    return { kind, reason: { ...reason, message: withoutStandIn(reason.message) }, changes };
  }
  if (answer.kind !== "waits") return answer;
  const { answer: fleet, forecast, preempts, kept, kind } = answer;
  const { position, waiting, reason } = fleet;
  return {
    kind,
    position,
    waiting,
    reason: { ...reason, message: withoutStandIn(reason.message) },
    ...(forecast !== undefined && { forecast: forecastDocument(forecast) }),
    ...(preempts !== undefined && { preempts }),
    notYielding: kept,
  };
}
