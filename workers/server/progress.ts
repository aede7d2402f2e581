/**
 * @file What the search for a Temporal server reports while it runs, and how a terminal or a log shows it.
 *
 * Each way to get a server closes with `ok` or `failed`; one that takes a while says `trying` first
 * and again with newer numbers. A terminal redraws that line in place; a log gets it when the way
 * opens and then once every `LOG_EVERY_MS`.
 */

export const STEPS = ["address", "path", "cache", "download", "build"] as const;
export type Step = (typeof STEPS)[number];

export interface Progress {
  readonly step: Step;
  readonly state: "trying" | "ok" | "failed";
  readonly detail: string;
  /** Why the way failed; present exactly when `state` is `failed`. */
  readonly reason?: string;
}

export type OnProgress = (event: Progress) => void;

/** How each way reads in a sentence. */
export const STEP_TITLES: Readonly<Record<Step, string>> = {
  address: "the server at the given address",
  path: "a temporal on the PATH",
  cache: "the cache",
  download: "the download",
  build: "a build from source",
};

/** One line for one event; a failure also names what is tried next. */
export function progressLine(event: Progress): string {
  const subject = `temporal server: ${STEP_TITLES[event.step]}`;
  switch (event.state) {
    case "trying":
      return `${subject}: ${event.detail}`;
    case "ok":
      return `${subject}: ok, ${event.detail}`;
    case "failed": {
      const next = STEPS[STEPS.indexOf(event.step) + 1];
      const onward = next === undefined ? "no further way to try" : `next: ${STEP_TITLES[next]}`;
      return `${subject}: failed: ${event.reason ?? event.detail}; ${onward}`;
    }
  }
}

export interface LineSink {
  readonly isTTY?: boolean;
  /** The width of the terminal; a longer line would wrap and could not be redrawn. */
  readonly columns?: number;
  readonly write: (text: string) => unknown;
}

const LOG_EVERY_MS = 15_000;
const BACK_TO_START = "\r\u001b[K";

/** A progress callback that prints to a stream; `nowMs` is the clock that thins out a log. */
export function progressPrinter(sink: LineSink, nowMs: () => number = Date.now): OnProgress {
  let openStep: Step | undefined;
  let lastLineMs = -Infinity;
  return (event) => {
    const line = progressLine(event);
    if (event.state !== "trying") {
      sink.write(sink.isTTY === true ? `${BACK_TO_START}${line}\n` : `${line}\n`);
      openStep = undefined;
      return;
    }
    if (sink.isTTY === true) {
      sink.write(`${BACK_TO_START}${line.slice(0, (sink.columns ?? 80) - 1)}`);
      return;
    }
    if (event.step === openStep && nowMs() - lastLineMs < LOG_EVERY_MS) return;
    openStep = event.step;
    lastLineMs = nowMs();
    sink.write(`${line}\n`);
  };
}
