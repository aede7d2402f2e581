/**
 * @file Reads the history of a job's workflow, event by event, as facts for `job-life.ts`.
 *
 * Signals may come from anybody: an event that cannot be read is counted and left out. Cost: linear; payloads are decoded with a worker's codecs.
 */

import type { Payload, PayloadCodec } from "@temporalio/common";
import type { JobEnd } from "../../page/job-wire.ts";
import type { Admission } from "../../protocol/control-contract.ts";
import { authorIn } from "../../protocol/job-orders.ts";
import type { RunOrder, RunReport, StopOrder, StopReport } from "../../protocol/agent-contract.ts";
import type { LaunchExtrasReport } from "../../protocol/launch-extras-contract.ts";
import {
  amendUpdate,
  assertSignal,
  callInSignal,
  fencedSignal,
  grantSignal,
  grantsSignal,
  holdUpdate,
  killSignal,
  pendingSignal,
  preemptSignal,
  releaseUpdate,
  moveUpdate,
  requeueUpdate,
  suspendUpdate,
  type Grant,
  type PreemptOrder,
  type WaitNote,
} from "../../protocol/messages.ts";
import { USER_KEY } from "../../client/search-keys.ts";
import { decoded, valueOf, type HistoryEvent } from "../follow/workflow-task.ts";
import type { JobFact } from "./job-life.ts";

export interface JobReader {
  readonly read: (event: HistoryEvent) => Promise<JobFact | undefined>;
}

type Called =
  | { readonly name: "run"; readonly order: RunOrder }
  | { readonly name: "stop"; readonly order: StopOrder }
  | { readonly name: "launchExtras" };

export function createJobReader(codecs: readonly PayloadCodec[]): JobReader {
  /** By the event that scheduled it. */
  const called = new Map<string, Called>();

  const valueIn = async (payload: Payload | null | undefined): Promise<unknown> =>
    valueOf(await decoded(payload, codecs));

  return { read };

  async function read(event: HistoryEvent): Promise<JobFact | undefined> {
    const started = event.workflowExecutionStartedEventAttributes;
    if (started) {
      const summary = await valueIn(event.userMetadata?.summary);
      // Search attributes are never encrypted.
      const user = valueOf(started.searchAttributes?.indexedFields?.[USER_KEY.name] ?? undefined);
      return {
        kind: "submitted",
        run: started.originalExecutionRunId ?? "",
        summary: typeof summary === "string" ? summary : "submitted",
        ...(typeof user === "string" && { user }),
      };
    }
    const signal = event.workflowExecutionSignaledEventAttributes;
    if (signal)
      return signalled(signal.signalName ?? "", await valueIn(signal.input?.payloads?.[0]));
    const accepted = event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest?.input;
    if (accepted) return ordered(accepted.name ?? "", await valueIn(accepted.args?.payloads?.[0]));
    const marker = event.markerRecordedEventAttributes;
    if (marker) {
      const said = marker.details?.["data"]?.payloads?.[0]?.data ?? new Uint8Array();
      if (!new TextDecoder().decode(said).includes('"activity_type":"admit"')) return undefined;
      return admitted((await valueIn(marker.details?.["result"]?.payloads?.[0])) as Admission);
    }
    return (await activityFact(event)) ?? endFact(event);
  }

  async function activityFact(event: HistoryEvent): Promise<JobFact | undefined> {
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled) {
      const name = scheduled.activityType?.name;
      if (name !== "run" && name !== "stop" && name !== "launchExtras") return undefined;
      if (name === "launchExtras") {
        called.set(String(event.eventId), { name });
        return {
          kind: "said",
          as: "starting",
          text: "the plan and the settings of its run are made",
        };
      }
      const order = await valueIn(scheduled.input?.payloads?.[0]);
      if (name === "run") {
        // Its files and variables are no part of a page, and may be large.
        const { run: _run, launchExtras: _extras, ticket: _ticket, ...rest } = order as RunOrder;
        const kept = rest as RunOrder;
        called.set(String(event.eventId), { name, order: kept });
        return { kind: "launched", order: kept };
      }
      called.set(String(event.eventId), { name, order: order as StopOrder });
      return { kind: "stopping", order: order as StopOrder };
    }
    const completed = event.activityTaskCompletedEventAttributes;
    const failed =
      event.activityTaskFailedEventAttributes ??
      event.activityTaskTimedOutEventAttributes ??
      event.activityTaskCanceledEventAttributes;
    const key = String((completed ?? failed)?.scheduledEventId);
    const call = called.get(key);
    if (call === undefined) return undefined;
    called.delete(key);
    if (!completed) return lost(call);
    const result = await valueIn(completed.result?.payloads?.[0]);
    if (call.name === "run") return { kind: "ran", order: call.order, report: result as RunReport };
    if (call.name === "stop")
      return { kind: "stopped", order: call.order, report: result as StopReport };
    return { kind: "extras", report: result as LaunchExtrasReport };
  }
}

function lost(call: Called): JobFact {
  if (call.name === "launchExtras")
    return { kind: "said", as: "starting", text: "nothing was made for its run in time" };
  const { leaseId, host } = call.order;
  if (call.name === "run") return { kind: "unreported", order: { leaseId, host } };
  return { kind: "said", as: "stopping", text: `${leaseId}: ${host} does not confirm the stop` };
}

function admitted(admission: Admission): JobFact {
  if (admission.kind === "admitted") return { kind: "admitted", spec: admission.spec };
  return { kind: "said", as: "stopped", text: `${admission.code}: ${admission.message}` };
}

function signalled(name: string, value: unknown): JobFact | undefined {
  switch (name) {
    case grantSignal.name:
      return { kind: "granted", grants: [value as Grant] };
    case grantsSignal.name:
      return { kind: "granted", grants: value as readonly Grant[] };
    case pendingSignal.name:
      return { kind: "waits", note: value as WaitNote };
    case preemptSignal.name:
      return { kind: "preempted", order: value as PreemptOrder };
    case fencedSignal.name: {
      const { lease, hosts } = value as {
        readonly lease: string;
        readonly hosts: readonly string[];
      };
      return { kind: "said", as: "stopped", text: `${lease}: ${hosts.join(", ")} fenced` };
    }
    case killSignal.name:
      return { kind: "said", as: "order", text: "its stop goes on without a checkpoint" };
    case callInSignal.name:
      return { kind: "said", as: "waiting", text: "called in from its tenant's lobby" };
    case assertSignal.name:
      return { kind: "said", as: "order", text: "the fleet asks what it holds" };
    default:
      return undefined;
  }
}

function ordered(name: string, value: unknown): JobFact | undefined {
  const by = authorIn(value);
  const author = by === undefined ? "" : ` by ${by}`;
  switch (name) {
    case holdUpdate.name:
      return { kind: "said", as: "held", text: `held${author}` };
    case suspendUpdate.name:
      return { kind: "said", as: "held", text: `suspended${author}` };
    case releaseUpdate.name:
      return { kind: "said", as: "waiting", text: `released${author}` };
    case requeueUpdate.name:
      return { kind: "said", as: "order", text: `asked to queue again${author}` };
    case moveUpdate.name:
      return { kind: "said", as: "order", text: `asked to go to another fleet${author}` };
    case amendUpdate.name:
      return { kind: "said", as: "order", text: `its settings are changed${author}` };
    default:
      return undefined;
  }
}

const ENDS: readonly (readonly [keyof HistoryEvent, JobEnd["how"]])[] = [
  ["workflowExecutionCompletedEventAttributes", "completed"],
  ["workflowExecutionFailedEventAttributes", "failed"],
  ["workflowExecutionCanceledEventAttributes", "cancelled"],
  ["workflowExecutionTerminatedEventAttributes", "terminated"],
  ["workflowExecutionTimedOutEventAttributes", "timed out"],
];

function endFact(event: HistoryEvent): JobFact | undefined {
  if (event.workflowExecutionCancelRequestedEventAttributes)
    return { kind: "said", as: "order", text: "cancellation is asked for" };
  const end = ENDS.find(([field]) => event[field]);
  if (end === undefined) return undefined;
  const why =
    event.workflowExecutionFailedEventAttributes?.failure?.message ??
    event.workflowExecutionTerminatedEventAttributes?.reason ??
    "";
  return { kind: "ended", how: end[1], why };
}
