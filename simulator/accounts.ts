/**
 * @file Where the GPU-seconds went: integrals over time of what each class and tenant holds, in which state.
 *
 * A group's integrals are settled only when something of it changes: O(1) an event. A gang that makes `rate` GPU-milliseconds
 * of progress a millisecond counts `rate` under `kept`, and the rest of its GPUs under `spread`; one that makes none counts all
 * of its GPUs under what keeps it from it. So the states add up to what is held, and `kept` with `spread` is the time whose progress stays.
 */

export const STATES = ["kept", "starting", "preemption", "failure", "spread", "held"] as const;
/** `kept`: it makes progress. `preemption`, `failure`: it holds GPUs without progress because of one. */
export type AccountState = (typeof STATES)[number];
export type Account = Readonly<Record<AccountState, number>>;

export interface Accounts {
  /** `gpus` GPUs in this state from now on, negative to end that. */
  readonly change: (group: number, state: PhaseState, gang: GangRate, nowMs: number) => void;
  /** Progress that was counted as kept is lost after all. */
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
  const add = (of: Float64Array, group: number, state: number, value: number): void => {
    const at = group * width + state;
    of[at] = (of[at] ?? 0) + value;
  };
  return {
    change(group, state, { gpus, rate }, nowMs) {
      settle(group, nowMs);
      const made = state === "kept" ? rate : gpus;
      add(rates, group, STATES.indexOf(state), made);
      add(rates, group, SPREAD, gpus - made);
      add(rates, group, HELD, gpus);
    },
    lose(group, state, { progress, held }) {
      add(totals, group, STATES.indexOf("kept"), -progress);
      add(totals, group, SPREAD, progress - held);
      add(totals, group, STATES.indexOf(state), held);
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
