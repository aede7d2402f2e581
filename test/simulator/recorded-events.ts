/**
 * @file A recorded history of the fleet workflow as what its ledger went through: events with their times, and the plans that were made.
 *
 * Follows machines/fleet/fleet.ts: at every workflow task the reports of deliveries, audits and estimates that came since the last one are
 * folded, then the signals as one inbox, with what was left of the run before, then the clock if something is due, then orders about GPUs, then a cycle if the
 * task ended in one. Other orders are not read. The clock of a workflow task is the time at which it was started.
 */
import { readFileSync } from "node:fs";
import { apply, nextFenceAtMs, nextReturnAtMs } from "../../scheduling/ledger/apply/apply.ts";
import { unpackLedger } from "../../scheduling/ledger/codec.ts";
import type { Ledger, LedgerEvent } from "../../scheduling/ledger/ledger.ts";
import type { Decision, JointAnswer, StartEstimates } from "../../protocol/control-contract.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import type { Plan } from "../../domain/lease/plan.ts";

export interface RecordedFleet {
  readonly ledger: Ledger;
  readonly events: readonly LedgerEvent[];
}

interface Payload {
  readonly metadata?: { readonly encoding?: string };
  /** Absent where the value is undefined. */
  readonly data?: string;
}
type Attributes = Readonly<Record<string, unknown>> & {
  readonly input?: { readonly payloads: readonly Payload[] };
  readonly result?: { readonly payloads: readonly Payload[] };
};
interface HistoryEvent {
  readonly eventId: string;
  readonly eventTime: string;
  readonly eventType: string;
  readonly workflowExecutionStartedEventAttributes?: Attributes;
  readonly workflowExecutionSignaledEventAttributes?: Attributes & { readonly signalName: string };
  readonly workflowExecutionUpdateAcceptedEventAttributes?: {
    readonly acceptedRequest: {
      readonly input: { readonly name: string; readonly args?: Attributes["input"] };
    };
  };
  readonly activityTaskScheduledEventAttributes?: Attributes & {
    readonly activityType: { readonly name: string };
  };
  readonly activityTaskCompletedEventAttributes?: Attributes & {
    readonly scheduledEventId: string;
  };
  readonly markerRecordedEventAttributes?: {
    readonly details: Readonly<Record<string, { readonly payloads: readonly Payload[] }>>;
  };
}

export function recordedFleet(path: string): RecordedFleet {
  // The file is one of ours.
  const { events } = JSON.parse(readFileSync(path, "utf8")) as {
    readonly events: readonly HistoryEvent[];
  };
  const [input] = contents(events[0]?.workflowExecutionStartedEventAttributes?.input?.payloads);
  const { ledger: packed, words = [] } = input as FleetInput;
  const first = unpackLedger(packed);
  const recorded: LedgerEvent[] = [];
  let ledger = first;
  const fold = (event: LedgerEvent): void => {
    recorded.push(event);
    ledger = apply(ledger, event).ledger;
  };
  const activities = new Map<string, { readonly name: string; readonly hasGrants: boolean }>();
  // What came as the run before ended.
  let inbox: unknown[] = words.flatMap(({ batch, order }) => (order ? [] : batch));
  let reports: (DeliveryReport | AuditReport | StartEstimates)[] = [];
  let nowMs = 0;
  const foldReports = (): void => {
    for (const report of reports) {
      if ("closed" in report) {
        const { closed } = report;
        if (closed.length > 0) fold({ kind: "audited", closed, nowMs });
        continue;
      }
      if ("estimates" in report) {
        if (report.estimates.length > 0) fold({ kind: "estimated", ...report, nowMs });
        continue;
      }
      const { accepted, gone, evictions, hasGrants } = report;
      const { sent, gone: left } = evictions ?? { sent: [], gone: [] };
      if (sent.length + left.length > 0) fold({ kind: "evictions-sent", sent, gone: left, nowMs });
      if (accepted.length + gone.length > 0 || !hasGrants)
        fold({ kind: "delivered", accepted, gone, nowMs });
    }
    reports = [];
  };
  for (const event of events) {
    const scheduled = event.activityTaskScheduledEventAttributes;
    const completed = event.activityTaskCompletedEventAttributes;
    const order = event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest.input;
    const plan = planOf(event);
    if (event.workflowExecutionSignaledEventAttributes?.signalName === "inbox") {
      const [batch] = contents(event.workflowExecutionSignaledEventAttributes.input?.payloads);
      inbox.push(...(Array.isArray(batch) ? (batch as unknown[]) : [batch]));
    } else if (order?.name === "drain-gpus" || order?.name === "undrain-gpus") {
      const [argument] = contents(order.args?.payloads);
      fold({ kind: order.name, ...(argument as GpuDrainOrder), nowMs });
    } else if (scheduled !== undefined) {
      const [mail] = contents(scheduled.input?.payloads);
      const { grants = [] } = mail as { readonly grants?: readonly unknown[] };
      activities.set(event.eventId, {
        name: scheduled.activityType.name,
        hasGrants: grants.length > 0,
      });
    } else if (completed !== undefined) {
      const { name, hasGrants } = activities.get(completed.scheduledEventId) ?? {};
      const [result] = contents(completed.result?.payloads);
      if (name === "deliver")
        reports.push({ ...(result as DeliveryReport), hasGrants: hasGrants === true });
      if (name === "audit") reports.push(result as AuditReport);
      if (name === "estimateStarts") reports.push(result as StartEstimates);
    } else if (event.eventType === "EVENT_TYPE_WORKFLOW_TASK_STARTED") {
      nowMs = Math.floor(Date.parse(event.eventTime));
      foldReports();
      if (inbox.length > 0) fold({ kind: "inbox", entries: inbox, nowMs });
      inbox = [];
      const clockAtMs = Math.min(
        nextFenceAtMs(ledger) ?? Infinity,
        nextReturnAtMs(ledger) ?? Infinity,
      );
      if (clockAtMs <= nowMs) fold({ kind: "clock", nowMs });
    } else if (plan !== undefined) {
      fold({ kind: "plan", plan, nowMs });
    }
  }
  return { ledger: first, events: recorded };
}

type GpuDrainOrder = Pick<Extract<LedgerEvent, { kind: "drain-gpus" }>, "gpus" | "reason">;

interface DeliveryReport {
  readonly accepted: Extract<LedgerEvent, { kind: "delivered" }>["accepted"];
  readonly gone: Extract<LedgerEvent, { kind: "delivered" }>["gone"];
  readonly evictions?: {
    readonly sent: Extract<LedgerEvent, { kind: "evictions-sent" }>["sent"];
    readonly gone: Extract<LedgerEvent, { kind: "evictions-sent" }>["gone"];
  };
  readonly hasGrants: boolean;
}

type AuditReport = Pick<Extract<LedgerEvent, { kind: "audited" }>, "closed">;

function planOf({ markerRecordedEventAttributes: marker }: HistoryEvent): Plan | undefined {
  const [data] = contents(marker?.details["data"]?.payloads);
  const { activity_type: type } = (data ?? {}) as { readonly activity_type?: string };
  const [result] = contents(marker?.details["result"]?.payloads);
  if (type === "decide") return result as Plan | undefined;
  if (type !== "decideNext" && type !== "checkAndDecide") return undefined;
  const decision =
    type === "decideNext"
      ? (result as Decision | undefined)
      : (result as JointAnswer | undefined)?.decision;
  return decision?.kind === "plan" ? decision.plan : undefined;
}

const contents = (payloads: readonly Payload[] = []): readonly unknown[] =>
  payloads.map(({ data }) =>
    data === undefined
      ? undefined
      : (JSON.parse(Buffer.from(data, "base64").toString("utf8")) as unknown),
  );
