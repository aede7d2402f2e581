/**
 * @file Shows a changing text until Ctrl-C: redrawn in place on a terminal, otherwise only new lines.
 *
 * A terminal shows the header and the first rows that fit, then the number of further rows.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Io } from "./io.ts";
import { safeText } from "./safe-text.ts";

const REDRAW_EVERY_MS = 2_000;

export async function watch(io: Io, draw: () => Promise<string>): Promise<void> {
  const { stdout, interrupted } = io;
  const show = stdout.isTTY === true ? await redrawing(io) : appending(io);
  try {
    while (!interrupted.aborted) {
      show.update(safeText(await draw()));
      await sleep(REDRAW_EVERY_MS, undefined, { signal: interrupted }).catch(() => undefined);
    }
  } finally {
    show.done();
  }
}

interface Show {
  readonly update: (text: string) => void;
  readonly done: () => void;
}

async function redrawing({ stdout }: Io): Promise<Show> {
  // It measures text by tables of Unicode, whose load takes longer than a list of jobs that is drawn once.
  const { createLogUpdate } = await import("log-update");
  const update = createLogUpdate(stdout);
  return {
    update: (text) => {
      update(fitted(text, stdout.rows));
    },
    done: () => {
      update.done();
    },
  };
}

/** The first lines that fit above the cursor's line; all of them where the height is not known. */
export function fitted(text: string, height: number | undefined): string {
  const lines = text.split("\n");
  if (height === undefined || height < 1 || lines.length < height) return text;
  const kept = Math.max(1, height - 2);
  return [...lines.slice(0, kept), `… ${String(lines.length - kept)} more`].join("\n");
}

/** In a log each line is written once, when it first appears. */
function appending({ stdout }: Io): Show {
  let shown = new Set<string>();
  return {
    update: (text) => {
      const lines = text.split("\n");
      for (const line of lines) if (!shown.has(line)) stdout.write(`${line}\n`);
      shown = new Set(lines);
    },
    done: () => undefined,
  };
}
