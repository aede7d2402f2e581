/** @file What a job did over time, from its moments: one phase after another, without a gap. */

import type { JobPage, MomentKind } from "./job-wire.ts";

/** `launched`: its hosts were told to start it, and have not reported since; a run's start is known when it has ended. */
export type Phase = "waiting" | "held" | "preparing" | "launched" | "running" | "stopping";

export interface PhaseSpan {
  readonly phase: Phase;
  readonly fromMs: number;
  readonly toMs: number;
}

/** What a moment begins; the others leave the phase as it is. */
const BEGINS: Readonly<Partial<Record<MomentKind, Phase>>> = {
  submitted: "waiting",
  waiting: "waiting",
  held: "held",
  granted: "preparing",
  running: "running",
  preempted: "stopping",
  stopping: "stopping",
  stopped: "waiting",
};

/** Joined where one phase goes on. `nowMs`: the end of a life that goes on. */
export function phasesOf({ moments, ended }: JobPage, nowMs: number): readonly PhaseSpan[] {
  const spans: PhaseSpan[] = [];
  let open: { readonly phase: Phase; readonly fromMs: number } | undefined;
  for (const { kind, atMs } of moments) {
    const phase = BEGINS[kind];
    if (phase === undefined || phase === open?.phase) continue;
    if (open !== undefined) spans.push({ ...open, toMs: atMs });
    open = { phase, fromMs: atMs };
  }
  const endMs = ended?.atMs ?? nowMs;
  const launched =
    ended === undefined && open?.phase === "preparing" ? launchIn(moments) : undefined;
  if (open !== undefined && launched !== undefined && launched.atMs >= open.fromMs) {
    if (launched.atMs > open.fromMs) spans.push({ ...open, toMs: launched.atMs });
    open = { phase: "launched", fromMs: launched.atMs };
  }
  if (open !== undefined) spans.push({ ...open, toMs: Math.max(open.fromMs, endMs) });
  return spans;
}

/** Of the newest grant. */
function launchIn(moments: JobPage["moments"]): JobPage["moments"][number] | undefined {
  const granted = moments.map(({ kind }) => kind).lastIndexOf("granted");
  return moments.slice(granted).find(({ kind }) => kind === "starting");
}
