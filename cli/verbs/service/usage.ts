/** @file `orbweaver usage`: the GPU-hours that tenants, users and classes held, and what became of them, from the console's history database. */

import { Option, type Command } from "commander";
import { openHistory } from "../../../console/history/database.ts";
import {
  USAGE_GROUPS,
  usageBy,
  type UsageGroup,
  type UsageRow,
  type UsageSpan,
} from "../../../console/history/usage.ts";
import { decayedUsage, type DecayedRow } from "../../../console/history/decayed-usage.ts";
import { percentText } from "../../../domain/lease/gpu-use.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { historyFileIn } from "../../../workers/state.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import { durationMs, nameList } from "../../command/option-values.ts";
import { csvText } from "../../terminal/csv-text.ts";
import { widthOf } from "../../terminal/io.ts";
import { durationText } from "../../terminal/duration.ts";
import { tableText } from "../../terminal/table.ts";

interface UsageValues {
  readonly fleet?: string;
  readonly by?: readonly string[];
  readonly month?: string;
  readonly halfLife?: number;
  readonly history?: string;
  readonly output?: string;
  readonly json?: boolean;
}

const HALF_LIFE_LIMITS = { leastMs: 60_000, mostMs: 366 * 86_400_000 };
const DEFAULT_GROUPS: readonly string[] = ["tenant", "user", "class"];

export function usageVerb(context: CommandContext): Command {
  const verb = context
    .verb("usage")
    .summary("show who held how many GPU-hours")
    .description(
      "Sums the GPU-hours of leases: held; useful, while processes ran and their work was kept; lost, work since the last checkpoint of runs that were preempted, stopped or failed; idle, before the processes started and after they had ended; unknown, of jobs that have not ended, whose runs are counted once they have, and of runs whose hosts reported no end. Where agents tell how much their GPUs are used: used, each GPU-hour times the share in use, and the efficiency, its part of the hours that agents told of. Users are those who signed their jobs.\n\nThe numbers come from the history database that the console of `orbweaver up` writes, so they reach back further than Temporal keeps histories.",
    )
    .option(
      "--by <names>",
      `rows for each of: ${USAGE_GROUPS.join(", ")}; ${DEFAULT_GROUPS.join(",")} when absent`,
      nameList,
    )
    .option(
      "--month <month>",
      "this month, as 2027-03 (UTC); the present one when absent; `all` for all",
    )
    .option(
      "--half-life <duration>",
      "instead: what was held lately, where each GPU-hour counts half as much for each such time since, e.g. 7d",
      durationMs("--half-life", HALF_LIFE_LIMITS),
    )
    .option("--fleet <name>", "name of the fleet (ORBWEAVER_FLEET; default: default)")
    .option("--history <file>", "this history database")
    .addOption(
      new Option("-o, --output <format>", "form of the answer").choices([
        "table",
        "json",
        "yaml",
        "csv",
      ]),
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver usage --by tenant", "this month, by tenant"],
        [
          "orbweaver usage --by tenant,user,class --month 2027-03 -o csv",
          "a month, for a spreadsheet",
        ],
        ["orbweaver usage --by month --month all --json", "month by month, for a script"],
        ["orbweaver usage --by job", "what each job held and used"],
        ["orbweaver usage --by tenant --half-life 7d", "whose use of late is how much of all"],
      ]),
    )
    .action(async (values: UsageValues) => {
      const { io } = context;
      const groups = (values.by ?? DEFAULT_GROUPS).map(groupNamed);
      const recent = recentOf(values, groups);
      const span = spanOf(values.month, io.nowMs());
      const file = values.history ?? historyFileIn(io.env, fleetNamed(values, io.env));
      const database = await openHistory(file, { isNew: false });
      try {
        const form = values.output === "csv" ? "csv" : widthOf(io.stdout);
        if (recent !== undefined) {
          const { halfLifeMs } = recent;
          const at = { halfLifeMs, nowMs: io.nowMs() };
          const rows = decayedUsage(database, recent.groups, at);
          if (values.json === true) context.printJson({ file, ...at, by: groups, rows });
          else context.print(recentText(rows, groups, { form, halfLifeMs }));
          return;
        }
        const rows = usageBy(database, groups, span);
        if (values.json === true) context.printJson({ file, ...span, by: groups, rows });
        else context.print(textOf(rows, groups, form));
      } finally {
        database.close();
      }
    });
  return verb;
}

function groupNamed(name: string): UsageGroup {
  const group = USAGE_GROUPS.find((one) => one === name);
  if (group !== undefined) return group;
  throw new OrbweaverError("BAD_INPUT", `--by ${name}: there is ${USAGE_GROUPS.join(", ")}.`);
}

/** Undefined without --half-life. */
function recentOf(
  { halfLife: halfLifeMs, month }: UsageValues,
  groups: readonly UsageGroup[],
):
  | { readonly halfLifeMs: number; readonly groups: readonly Exclude<UsageGroup, "month">[] }
  | undefined {
  if (halfLifeMs === undefined) return undefined;
  const present = groups.filter((group) => group !== "month");
  if (month !== undefined || present.length < groups.length)
    throw new OrbweaverError("BAD_INPUT", "--half-life is of all time up to now, not by months.");
  return { halfLifeMs, groups: present };
}

function spanOf(month: string | undefined, nowMs: number): UsageSpan {
  if (month === "all") return { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
  const said = month ?? new Date(nowMs).toISOString().slice(0, 7);
  const fromMs = /^\d{4}-(0[1-9]|1[0-2])$/.test(said) ? Date.parse(`${said}-01T00:00:00Z`) : NaN;
  if (Number.isNaN(fromMs))
    throw new OrbweaverError("BAD_INPUT", `--month ${said}: write a month as 2027-03, or all.`);
  const next = new Date(fromMs);
  next.setUTCMonth(next.getUTCMonth() + 1);
  return { fromMs, toMs: next.getTime() };
}

const FIGURES = ["held", "useful", "lost", "idle", "unknown"] as const;
const MEASURED = ["measured", "used"] as const;
/** What is less, and not nothing, is told as less. */
const LEAST_SHOWN = 0.005;

function recentText(
  rows: readonly DecayedRow[],
  groups: readonly UsageGroup[],
  { form, halfLifeMs }: { readonly form: "csv" | number; readonly halfLifeMs: number },
): string {
  if (form === "csv")
    return csvText([
      [...groups, "decayed_gpu_hours", "share"],
      ...rows.map(({ names, decayed, share }) => [...names, decayed.toFixed(4), share.toFixed(4)]),
    ]);
  if (rows.length === 0) return "no leases in that time";
  const columns = [
    ...groups.map((name) => ({ title: name.toUpperCase(), least: 6 })),
    ...["DECAYED", "SHARE"].map((title) => ({ title, isRight: true })),
  ];
  const lines = rows.map(({ names, decayed, share }) => [
    ...names,
    hoursText(decayed),
    percentText(share),
  ]);
  const note = `In GPU-hours, of which half counts after ${durationText(halfLifeMs)}. The order of the queue does not depend on it.`;
  return `${tableText(columns, lines, form)}\n${note}`;
}

function textOf(
  rows: readonly UsageRow[],
  groups: readonly UsageGroup[],
  form: "csv" | number,
): string {
  if (form === "csv") {
    const figures = [...FIGURES, ...MEASURED];
    return csvText([
      [...groups, "leases", ...figures.map((name) => `${name}_gpu_hours`)],
      ...rows.map((row) => [
        ...row.names,
        String(row.leases),
        ...figures.map((name) => row[name].toFixed(4)),
      ]),
    ]);
  }
  if (rows.length === 0) return "no leases in that time";
  const isMeasured = rows.some(({ measured }) => measured > 0);
  const isKnown = rows.every(({ unknown }) => unknown === 0);
  const figures = FIGURES.filter((name) => name !== "unknown" || !isKnown);
  const number = (name: string) => ({ title: name.toUpperCase(), isRight: true });
  const columns = [
    ...groups.map((name) => ({ title: name.toUpperCase(), least: 6 })),
    ...["leases", ...figures, ...(isMeasured ? ["used", "efficiency"] : [])].map(number),
  ];
  const lines = rows.map((row) => [
    ...row.names,
    String(row.leases),
    ...figures.map((name) => hoursText(row[name])),
    ...(isMeasured ? usedCells(row) : []),
  ]);
  return `${tableText(columns, lines, form)}\nIn GPU-hours.`;
}

const hoursText = (hours: number): string =>
  hours > 0 && hours < LEAST_SHOWN ? "<0.01" : hours.toFixed(2);

const usedCells = ({ measured, used }: UsageRow): readonly string[] =>
  measured > 0 ? [hoursText(used), percentText(used / measured)] : ["-", "-"];
