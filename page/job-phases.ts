/** @file What a job did over time, from its moments: one phase after another, without a gap. */

import type { JobPage, MomentKind } from "./job-wire.ts";

export type Phase = "waiting" | "held" | "preparing" | "running" | "stopping";

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
  if (open !== undefined) spans.push({ ...open, toMs: Math.max(open.fromMs, endMs) });
  return spans;
}
