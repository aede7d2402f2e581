/** @file The demo's display: a table redrawn in place on a terminal, otherwise one plain line for each change. */

import { createLogUpdate } from "log-update";
import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { clusterOf } from "../../domain/values/ids.ts";

export type DemoState = "submitted" | "waiting" | "running" | "completed" | "failed";

export interface DemoRow {
  readonly jobId: string;
  readonly class: string;
  readonly tenant: string;
  readonly gpus: number;
  readonly submittedAtMs: number;
  state: DemoState;
  where: string;
  /** Code of its reason for waiting, where known. */
  code: string;
  waitedMs: number;
}

export interface Board {
  /** Takes waiting and running jobs from the ledger. */
  update(rows: readonly DemoRow[], ledger: Ledger | undefined, nowMs: number): void;
  close(): void;
}

const MAX_ROWS = 16;

export function createBoard(stream: NodeJS.WriteStream, totalGpus: number): Board {
  return stream.isTTY ? liveBoard(stream, totalGpus) : plainBoard(stream);
}

function liveBoard(stream: NodeJS.WriteStream, totalGpus: number): Board {
  const draw = createLogUpdate(stream);
  return {
    update(rows, ledger, nowMs) {
      const counts = countsOf(rows);
      const leased =
        ledger === undefined
          ? 0
          : [...ledger.leases.values()].reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0);
      const width = 30;
      const filled = Math.round((leased / totalGpus) * width);
      const active = rows.filter(
        ({ state }) => state === "running" || state === "waiting" || state === "submitted",
      );
      const shown = [...active].sort(
        (a, b) => rank(a.state) - rank(b.state) || a.submittedAtMs - b.submittedAtMs,
      );
      draw(
        [
          `GPUs [${"#".repeat(filled)}${".".repeat(width - filled)}] ${leased}/${totalGpus}   ${counts}`,
          "",
          line(["JOB", "CLASS", "TENANT", "STATE", "GPUS", "WHERE", "WAITED"]),
          ...shown.slice(0, MAX_ROWS).map((row) => rowLine(row, nowMs)),
          ...(shown.length > MAX_ROWS ? [`… and ${shown.length - MAX_ROWS} more`] : []),
        ].join("\n"),
      );
    },
    close: () => draw.done(),
  };
}

function plainBoard(stream: NodeJS.WriteStream): Board {
  const seen = new Map<string, string>();
  stream.write(`${line(["JOB", "CLASS", "TENANT", "STATE", "GPUS", "WHERE", "WAITED"])}\n`);
  return {
    update(rows, _ledger, nowMs) {
      for (const row of rows) {
        if (seen.get(row.jobId) === row.state || row.state === "submitted") continue;
        seen.set(row.jobId, row.state);
        stream.write(`${rowLine(row, nowMs)}\n`);
      }
    },
    close: () => undefined,
  };
}

/** The clusters and hosts of a lease, short enough for a column. */
export function whereOf({ gpus }: Pick<Lease, "gpus">): string {
  const hosts = gpus.map(({ host }) => host);
  const [first] = hosts;
  if (first === undefined) return "";
  return hosts.length === 1 ? first : `${clusterOf(first)} ×${hosts.length}`;
}

function rowLine(row: DemoRow, nowMs: number): string {
  const waitedMs =
    row.state === "waiting" || row.state === "submitted" ? nowMs - row.submittedAtMs : row.waitedMs;
  const state = row.state === "waiting" && row.code !== "" ? row.code : row.state;
  return line([
    row.jobId,
    row.class,
    row.tenant,
    state,
    String(row.gpus),
    row.where,
    `${(waitedMs / 1000).toFixed(1)} s`,
  ]);
}

/** 80 columns: every cell cut to its column. */
function line(cells: readonly string[]): string {
  const widths = [14, 9, 8, 17, 5, 15, 7];
  return cells
    .map((cell, index) => cell.slice(0, widths[index]).padEnd(widths[index] ?? 0))
    .join(" ")
    .trimEnd();
}

const ORDER: readonly DemoState[] = ["running", "waiting", "submitted", "completed", "failed"];
const rank = (state: DemoState): number => ORDER.indexOf(state);

function countsOf(rows: readonly DemoRow[]): string {
  const count = (state: DemoState): number => rows.filter((row) => row.state === state).length;
  const parts = [
    `${count("running")} running`,
    `${count("waiting") + count("submitted")} waiting`,
    `${count("completed")} completed`,
    ...(count("failed") > 0 ? [`${count("failed")} failed`] : []),
  ];
  return parts.join(", ");
}
