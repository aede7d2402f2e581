/** @file `orbweaver queue`: who is next, and what each class and tenant has, is due and is owed. */

import type { Command } from "commander";
import { lineUp, type ClassLine, type LineUp, type TenantLine } from "../../scheduling/line-up.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { counted, durationText } from "../duration.ts";
import { widthOf } from "../io.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { wholeNumber } from "../option-values.ts";
import { tableText, type Column } from "../table.ts";

interface QueueValues extends ConnectionOptionValues {
  readonly limit: number;
  readonly json?: boolean;
}

export function queueVerb(kit: Kit): Command {
  const verb = kit
    .verb("queue")
    .summary("show who is next, and what each class and tenant is owed")
    .description(
      "Shows the shares of classes and tenants, then the jobs that wait, in the order in which the\n" +
        "next scheduling cycle asks them. HAS and DUE are GPUs; OWED is the deficit in GPU-hours:\n" +
        "service that was due less service received. Whoever is owed most for its weight is next.\n" +
        "A * marks jobs for which GPUs are set apart.",
    )
    .option("-n, --limit <count>", "at most this many jobs", wholeNumber("--limit", 1), 50)
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver queue", "who is next, and who is owed"],
        ["orbweaver queue --limit 10", "the first ten"],
        ["orbweaver queue --json", "all of it for a script"],
      ]),
    )
    .action(async (values: QueueValues) => {
      await kit.withSession(values, async ({ client }) => {
        const nowMs = kit.io.nowMs();
        const line = lineUp(await client.fleet(), nowMs);
        if (values.json === true) kit.printJson(queueDocument(line, values.limit));
        else
          kit.print(queueText(line, { nowMs, limit: values.limit, width: widthOf(kit.io.stdout) }));
      });
    });
  return addConnectionOptions(verb);
}

export function queueDocument({ usableGpus, classes, line }: LineUp, limit: number): object {
  return {
    usableGpus,
    classes,
    waiting: line.length,
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

export function queueText(
  { usableGpus, classes, line }: LineUp,
  {
    nowMs,
    limit,
    width,
  }: { readonly nowMs: number; readonly limit: number; readonly width: number },
): string {
  if (classes.length === 0)
    return `nothing waits or runs; ${counted(usableGpus, "GPU")} may be used`;
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
    ...(jobs.length === 0 ? ["nothing waits"] : [tableText(JOB_COLUMNS, jobs, width)]),
    ...(more > 0 ? [`and ${counted(more, "more job")}; \`--limit\` shows more`] : []),
  ].join("\n");
}

const SHARE_COLUMNS: readonly Column[] = [
  { title: "CLASS / TENANT", least: 10 },
  { title: "WEIGHT", isRight: true },
  { title: "WAIT", isRight: true },
  { title: "HAS", isRight: true },
  { title: "SHARE", isRight: true },
  { title: "DUE", isRight: true },
  { title: "SHARE", isRight: true },
  { title: "OWED GPU-h", isRight: true },
];

const JOB_COLUMNS: readonly Column[] = [
  { title: "#", isRight: true },
  { title: "JOB", least: 12 },
  { title: "CLASS" },
  { title: "TENANT", least: 6 },
  { title: "GPUS", isRight: true },
  { title: "AGE", isRight: true },
  { title: "WAITS FOR", least: 14 },
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
