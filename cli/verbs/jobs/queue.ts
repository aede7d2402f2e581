/** @file `orbweaver queue`: the queue, with GPUs, dues and deficits of each class and tenant. */

import type { Command } from "commander";
import type { Ledger } from "../../../client/index.ts";
import type { WaitingByClass } from "../../../domain/lease/lobby.ts";
import { byCodeUnit } from "../../../domain/values/ids.ts";
import {
  queueOrder,
  type ClassLine,
  type QueueOrder,
  type TenantLine,
} from "../../../scheduling/explain/queue-order.ts";
import { quotaUse, type QuotaUse } from "../../../scheduling/explain/quota-use.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { counted, durationText } from "../../terminal/duration.ts";
import { heldQueueDocuments, heldQueueLines } from "../../text/held-queues.ts";
import { queueHoldVerb } from "./queue-hold.ts";
import { queueReleaseVerb } from "./queue-release.ts";
import { outsideText, sumOf } from "../../text/lobby-place.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { wholeNumber } from "../../command/option-values.ts";
import { tableText, type Column } from "../../terminal/table.ts";

interface QueueValues extends ConnectionOptionValues {
  readonly limit: number;
  readonly json?: boolean;
}

export function queueVerb(context: CommandContext): Command {
  const verb = context
    .verb("queue")
    // So that `queue hold --json` is of `hold`.
    .enablePositionalOptions()
    .summary("show the queue and the fair shares")
    .description(
      "Shows the shares of classes and tenants, then the waiting jobs in the order in which the next scheduling cycle considers them. RUNNING and DUE are GPUs. DEFICIT is the service that was due minus the service received, in GPU-hours; the class and tenant with the largest deficit for its weight comes first. Then the quotas of tenants: BORROWED is used above the quota, LENT is of the quota, not used, and held by others. A * marks jobs for which GPUs are reserved, or kept since they lost a host. Last, how many jobs wait outside because the fleet has no place for them; `orbweaver explain` gives the place of one. `queue hold` lets nothing of a tenant, a class or the fleet start until `queue release`; held jobs come last.",
    )
    .option("-n, --limit <count>", "most jobs to list", wholeNumber("--limit", 1), 50)
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver queue", "shares and the queue"],
        ["orbweaver queue --limit 10", "the first ten"],
        ["orbweaver queue --json", "the same for a script"],
        ["orbweaver queue hold --tenant research", "start nothing of a tenant"],
      ]),
    )
    .action(async (values: QueueValues) => {
      await context.withFleet(values, async ({ client }) => {
        const nowMs = context.io.nowMs();
        const ledger = await client.fleet();
        const line = queueOrder(ledger, nowMs);
        const outside = outsideOf(ledger);
        const quotas = quotaUse(ledger);
        if (values.json === true)
          context.printJson({
            ...queueDocument(line, { limit: values.limit, outside }),
            ...(quotas.length > 0 && { quotas }),
            holds: heldQueueDocuments(ledger),
          });
        else
          context.print(
            [
              queueText(line, {
                nowMs,
                limit: values.limit,
                width: widthOf(context.io.stdout),
                isRead: context.io.stdout.isTTY !== true,
                quotas,
              }),
              ...[outsideText(outside) ?? []].flat(),
              ...heldQueueLines(ledger, nowMs),
            ].join("\n"),
          );
      });
    });
  return addServiceOptions(verb)
    .addCommand(queueHoldVerb(context))
    .addCommand(queueReleaseVerb(context));
}

/** How many wait in the lobbies, as far as the fleet knows. */
type Outside = readonly (readonly [tenant: string, waiting: WaitingByClass])[];

const outsideOf = ({ intake }: Ledger): Outside =>
  [...(intake?.lobbies ?? [])]
    .map(([tenant, { waiting }]) => [tenant, waiting] as const)
    .filter(([, waiting]) => sumOf(waiting) > 0)
    .sort(([a], [b]) => byCodeUnit(a, b));

function queueDocument(
  { usableGpus, classes, line }: QueueOrder,
  { limit, outside }: { readonly limit: number; readonly outside: Outside },
): object {
  return {
    usableGpus,
    classes,
    waiting: line.length,
    ...(outside.length > 0 && {
      outside: outside.map(([tenant, waiting]) => ({
        tenant,
        waiting: sumOf(waiting),
        ...waiting,
      })),
    }),
    jobs: line.slice(0, limit).map(({ request, reason, isReserved }, at) => ({
      position: at + 1,
      jobId: request.jobId,
      class: request.class,
      tenant: request.tenant,
      gpus: request.gang.gpus,
      ...(request.slots !== undefined && { slots: request.slots }),
      priority: request.priority,
      submittedAtMs: request.submittedAtMs,
      isReserved,
      ...(reason !== undefined && { reason }),
    })),
  };
}

function queueText(
  { usableGpus, classes, line }: QueueOrder,
  {
    nowMs,
    limit,
    width,
    isRead,
    quotas,
  }: {
    readonly nowMs: number;
    readonly limit: number;
    readonly width: number;
    /** By a program, which gets every id whole. */
    readonly isRead: boolean;
    readonly quotas: readonly QuotaUse[];
  },
): string {
  if (classes.length === 0)
    return `no job waits or runs; ${counted(usableGpus, "GPU")} can be granted`;
  const shares = classes.flatMap((one) => [
    shareRow(one.class, one),
    ...one.tenants.map((tenant) => shareRow(`  ${tenant.tenant}`, tenant)),
  ]);
  const jobs = line
    .slice(0, limit)
    .map(({ request, reason, isReserved }, at) => [
      `${String(at + 1)}${isReserved ? "*" : ""}`,
      request.jobId,
      request.class,
      request.tenant,
      request.slots === undefined
        ? String(request.gang.gpus)
        : `${String(request.slots)}x${String(request.gang.gpus)}`,
      durationText(nowMs - request.submittedAtMs),
      reason?.code ?? "PendingEvaluation",
    ]);
  const more = line.length - jobs.length;
  return [
    tableText(SHARE_COLUMNS, shares, width),
    "",
    ...(quotas.length === 0 ? [] : [tableText(QUOTA_COLUMNS, quotas.map(quotaRow), width), ""]),
    ...(jobs.length === 0 ? ["no job waits"] : [tableText(jobColumns(isRead), jobs, width)]),
    ...(more > 0 ? [`and ${counted(more, "more job")}; \`--limit\` shows more`] : []),
  ].join("\n");
}

const SHARE_COLUMNS: readonly Column[] = [
  { title: "CLASS / TENANT", least: 10 },
  { title: "WEIGHT", isRight: true },
  { title: "WAITING", isRight: true },
  { title: "RUNNING", isRight: true },
  { title: "SHARE", isRight: true },
  { title: "DUE", isRight: true },
  { title: "SHARE", isRight: true },
  { title: "DEFICIT GPU-h", isRight: true },
];

const jobColumns = (isRead: boolean): readonly Column[] => [
  { title: "#", isRight: true },
  { title: "JOB", ...(!isRead && { least: 12 }) },
  { title: "CLASS" },
  { title: "TENANT", least: 6 },
  { title: "GPUS", isRight: true },
  { title: "AGE", isRight: true },
  { title: "WAITS FOR", least: 14 },
];

const QUOTA_COLUMNS: readonly Column[] = [
  { title: "TENANT", least: 6 },
  { title: "TYPE" },
  { title: "QUOTA", isRight: true },
  { title: "USED", isRight: true },
  { title: "BORROWED", isRight: true },
  { title: "LENT", isRight: true },
];

const quotaRow = (line: QuotaUse): readonly string[] => [
  line.tenant,
  line.gpuType === "*" ? "others" : line.gpuType,
  ...[line.nominalGpus, line.usedGpus, line.borrowedGpus, line.lentGpus].map(String),
];

const shareRow = (name: string, line: ClassLine | TenantLine): readonly string[] => [
  name,
  String(line.weight),
  String(line.waiting),
  String(line.runningGpus),
  percent(line.share),
  String(line.dueGpus),
  percent(line.dueShare),
  (line.deficitGpuSeconds / 3_600).toFixed(2),
];

const percent = (part: number): string => `${(100 * part).toFixed(1)}%`;
