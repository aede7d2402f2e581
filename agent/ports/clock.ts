/** @file Time as the agent's logic sees it: three clocks, pauses and timers. All figures are milliseconds. */

export interface Clock {
  /**
   * Since the machine started, its sleep included, and never set. It reads the same in every process of the machine, so agent and shims may
   * compare times that the other has written down, and it means nothing after a restart of the machine. Steps of 10 ms on Linux.
   */
  sinceBootMs(): number;
  /** Of this process alone, and never set. For durations. */
  elapsedMs(): number;
  /** The wall clock, which people may set. For times that people read. */
  nowMs(): number;
  /** Resolves after the time, or when the signal is aborted. */
  pause(forMs: number, signal?: AbortSignal): Promise<void>;
  /** Aborted after the time; keeps no process alive. */
  deadline(forMs: number): AbortSignal;
  /** Calls once after the time; the result calls it off. */
  after(forMs: number, call: () => void, options?: TimerOptions): () => void;
  /** Calls again and again; the result ends it. */
  every(eachMs: number, call: () => void, options?: TimerOptions): () => void;
}

export interface TimerOptions {
  /** The process may end although the timer is still set. */
  readonly isIdle?: boolean;
}
