/** @file The schema of `keep:` in a fleet file and of its tenants, and the rules that they state. */

import { z } from "zod";
import { duration, memory } from "../file/schema-leaf.ts";
import { shown } from "../values/file-problem.ts";
import { tenantId, type TenantId } from "../values/ids.ts";
import type { GiB, Ms } from "../values/units.ts";
import type { RuleProblem } from "./fleet-names.ts";
import { DEFAULT_KEEP, GRACE_MS, type KeepRule, type KeepRules } from "./keep.ts";

const HOUR_MS = 3_600_000;
const GIB = 2 ** 30;

const age = (description: string, example: string) =>
  duration({ description: `${description} At least 1d.`, examples: [example] });
const size = (description: string, example: string) => memory({ description, examples: [example] });

const quotas = (of: string) => ({
  most: size(
    `What the ${of} of all tenants may take on one machine. Beyond it those of the job that ended first go first; those of a job that has not ended never go. Default: no limit.`,
    "2000 GiB",
  ).optional(),
  tenant: size(`The same for the ${of} of each tenant. Default: no limit.`, "500 GiB").optional(),
});

export const keepSchema = z
  .strictObject({
    automatic: z
      .boolean()
      .meta({
        description:
          "Whether the console of `orbweaver up` collects what is due by itself, once a day. Default: true.",
      })
      .optional(),
    checkpoints: z
      .strictObject({
        for: age(
          `How long checkpoints are kept after their job has ended. Default: 30d.`,
          "14d",
        ).optional(),
        ...quotas("checkpoints"),
      })
      .meta({
        description:
          "Checkpoints in folders of the agents. Those in a `checkpoint.dir` of a job are never touched.",
      })
      .optional(),
    output: z
      .strictObject(quotas("output of launches"))
      .meta({
        description:
          "Output of launches. Agents remove it after 7 days by themselves, and beyond 1,000 launches a host.",
      })
      .optional(),
    archives: z
      .strictObject({
        for: age(
          "How long archived runs of the fleet are kept. Default: no limit.",
          "180d",
        ).optional(),
        most: size(
          "What they may take. Default: 2 GiB, the most that the console keeps.",
          "1 GiB",
        ).optional(),
      })
      .meta({ description: "Archived runs of the fleet, for the console's time slider." })
      .optional(),
    logs: z
      .strictObject({
        for: age(
          `How long a log is kept after its last line, where its process runs no more. Default: 30d.`,
          "30d",
        ).optional(),
      })
      .meta({ description: "Logs of the processes of `orbweaver up`." })
      .optional(),
    history: z
      .strictObject({
        for: age(
          "How long rows are kept after their job has ended. Default: for good.",
          "400d",
        ).optional(),
      })
      .meta({ description: "The history database, from which `usage` and `list --ended` answer." })
      .optional(),
    store: z
      .strictObject({
        for: age(
          `How long a value to which nothing refers is kept since it was put there last. Default: 30d.`,
          "30d",
        ).optional(),
      })
      .meta({ description: "The store of large values." })
      .optional(),
  })
  .meta({
    description:
      "How long, and how much at most, each machine keeps. The console of `orbweaver up` removes what is due by it once a day, and `orbweaver house --collect` at once; only the file on the machine where that runs counts.",
  });

export const tenantKeepSchema = z
  .strictObject({
    checkpoints: size(
      "What its checkpoints may take on one machine. Default: `keep.checkpoints.tenant` of the fleet.",
      "500 GiB",
    ).optional(),
    output: size(
      "What the output of its launches may take on one machine. Default: `keep.output.tenant` of the fleet.",
      "20 GiB",
    ).optional(),
  })
  .meta({ description: "Its quotas of what machines keep." });

export type WrittenKeep = z.output<typeof keepSchema>;

/** A rule that takes what was just written is taken for a mistake. */
export const keepProblems = (keep: WrittenKeep | undefined): RuleProblem[] =>
  Object.entries(keep ?? {}).flatMap(([kind, rule]): RuleProblem[] => {
    const written = typeof rule === "object" && "for" in rule ? rule.for : undefined;
    if (written === undefined || written >= GRACE_MS) return [];
    return [
      {
        path: ["keep", kind, "for"],
        value: written,
        message: `${shown(`${String(written / HOUR_MS)}h`)} is less than a day`,
        remedy: "write at least 1d",
      },
    ];
  });

interface TenantEntry {
  readonly name?: string | undefined;
  readonly keep?: z.output<typeof tenantKeepSchema> | undefined;
}

/** The rules that a file states, with the defaults. */
export function keepRules(
  written: WrittenKeep | undefined,
  tenants: readonly TenantEntry[],
): KeepRules {
  const own = (kind: "checkpoints" | "output"): ReadonlyMap<TenantId, number> =>
    new Map(
      tenants.flatMap(({ name, keep }) => {
        const most = keep?.[kind];
        return name === undefined || most === undefined
          ? []
          : [[tenantId(name), most * GIB] as const];
      }),
    );
  const ruleFor = (kind: Exclude<keyof KeepRules, "isByHand">): KeepRule => ({
    ...DEFAULT_KEEP[kind],
    ...ruleOf(written?.[kind] ?? {}),
  });
  return {
    checkpoints: { ...ruleFor("checkpoints"), tenants: own("checkpoints") },
    output: { ...ruleFor("output"), tenants: own("output") },
    archives: ruleFor("archives"),
    logs: ruleFor("logs"),
    history: ruleFor("history"),
    store: ruleFor("store"),
    ...(written?.automatic === false && { isByHand: true }),
  };
}

const ruleOf = ({
  for: keptMs,
  most,
  tenant,
}: {
  readonly for?: Ms | undefined;
  readonly most?: GiB | undefined;
  readonly tenant?: GiB | undefined;
}): KeepRule => ({
  ...(keptMs !== undefined && { forMs: keptMs }),
  ...(most !== undefined && { mostBytes: most * GIB }),
  ...(tenant !== undefined && { tenantBytes: tenant * GIB }),
});
