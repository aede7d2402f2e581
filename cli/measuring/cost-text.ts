/** @file The cost of a measuring run as text, beside the time of the paper's authors (BandPilot, table 3). */

import type { MeasuringCost } from "../../models/measuring/measuring-cost.ts";
import { counted, durationText } from "../terminal/duration.ts";
import { tableText } from "../terminal/table.ts";

export function costText(
  { hosts, groups, wallSeconds, gpuHours }: MeasuringCost,
  width: number,
): string {
  const rows = hosts
    .filter(({ sets }) => sets > 0)
    .map(({ host, gpuType, sets, seconds, basis, paperSeconds }) => [
      host,
      gpuType,
      String(sets),
      about(seconds),
      basis,
      paperSeconds === undefined ? "-" : about(paperSeconds),
    ]);
  const between = groups
    .filter(({ sets }) => sets > 0)
    .map(({ hosts: members, sets, seconds }) => [
      `${members[0]?.host ?? ""} … ${members.at(-1)?.host ?? ""}`,
      counted(members.length, "host"),
      String(sets),
      about(seconds),
      "assumed",
      "-",
    ]);
  const total = `${about(wallSeconds)} when all GPUs are free at once, ${gpuHours.toFixed(1)} GPU-hours`;
  if (rows.length + between.length === 0) return "every set is measured already";
  return `${tableText(COLUMNS, [...rows, ...between], width)}\ntogether ${total}`;
}

const COLUMNS = [
  { title: "HOSTS", least: 12 },
  { title: "GPUS" },
  { title: "SETS", isRight: true },
  { title: "ABOUT", isRight: true },
  { title: "FROM", least: 8 },
  { title: "PAPER (256 SETS)", isRight: true },
] as const;

const about = (seconds: number): string => durationText(Math.round(seconds) * 1_000);
