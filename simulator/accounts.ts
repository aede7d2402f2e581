/**
 * @file GPU-seconds by class, tenant and state: integrals over time of the GPUs held.
 *
 * A group's integrals are settled only when something of it changes: O(1) an event. A gang that makes `rate` GPU-milliseconds
 * of progress a millisecond counts `rate` under `kept`, and the rest of its GPUs under `spread`; one that makes none counts all
 * of its GPUs under the cause. So the states add up to the GPUs held, and `kept` with `spread` is the time whose progress stays.
 */

export const STATES = ["kept", "starting", "preemption", "failure", "spread", "held"] as const;
/** `kept`: it makes progress. `preemption`, `failure`: it holds GPUs without progress because of one. */
type AccountState = (typeof STATES)[number];
export type Account = Readonly<Record<AccountState, number>>;

interface Accounts {
  /** The gang is in `phase` from now on; negative figures end that. */
  readonly change: (group: number, gang: GangRate, nowMs: number) => void;
  /** Moves progress that was counted as kept to the cause of its loss. */
  readonly lose: (group: number, state: "preemption" | "failure", lost: Lost) => void;
  /** GPU-milliseconds by group up to now. */
  readonly read: (nowMs: number) => readonly Account[];
}

export type PhaseState = "kept" | "starting" | "preemption" | "failure";

/** GPU-milliseconds. */
export interface Lost {
  readonly progress: number;
  /** The time for which GPUs were held to make it. */
  readonly held: number;
}

export interface GangRate {
  readonly phase: PhaseState;
  readonly gpus: number;
  /** 0 to `gpus`. */
  readonly rate: number;
}

const SPREAD = STATES.indexOf("spread");
const HELD = STATES.indexOf("held");

export function openAccounts(groups: number): Accounts {
  const width = STATES.length;
  const rates = new Float64Array(groups * width);
  const totals = new Float64Array(groups * width);
  const settledMs = new Float64Array(groups);
  const settle = (group: number, nowMs: number): void => {
    const dt = nowMs - (settledMs[group] ?? 0);
    if (dt <= 0) return;
    for (let at = group * width; at < (group + 1) * width; at += 1)
      totals[at] = (totals[at] ?? 0) + (rates[at] ?? 0) * dt;
    settledMs[group] = nowMs;
  };
  return {
    change(group, { phase, gpus, rate }, nowMs) {
      settle(group, nowMs);
      const first = group * width;
      const made = phase === "kept" ? rate : gpus;
      add(rates, first + STATES.indexOf(phase), made);
      add(rates, first + SPREAD, gpus - made);
      add(rates, first + HELD, gpus);
    },
    lose(group, state, { progress, held }) {
      const first = group * width;
      add(totals, first + STATES.indexOf("kept"), -progress);
      add(totals, first + SPREAD, progress - held);
      add(totals, first + STATES.indexOf(state), held);
    },
    read(nowMs) {
      return Array.from({ length: groups }, (_, group) => {
        settle(group, nowMs);
        const of = (state: AccountState): number =>
          totals[group * width + STATES.indexOf(state)] ?? 0;
        return {
          kept: of("kept"),
          starting: of("starting"),
          preemption: of("preemption"),
          failure: of("failure"),
          spread: of("spread"),
          held: of("held"),
        };
      });
    },
  };
}

function add(sums: Float64Array, at: number, value: number): void {
  sums[at] = (sums[at] ?? 0) + value;
}
