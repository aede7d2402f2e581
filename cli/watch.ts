/**
 * @file Shows a changing text until Ctrl-C: redrawn in place on a terminal, elsewhere the lines that are new.
 */

import { createLogUpdate } from "log-update";
import { setTimeout as sleep } from "node:timers/promises";
import type { Io } from "./io.ts";

const REDRAW_EVERY_MS = 2_000;

export async function watch(io: Io, draw: () => Promise<string>): Promise<void> {
  const { stdout, interrupted } = io;
  const show = stdout.isTTY === true ? redrawing(io) : appending(io);
  try {
    while (!interrupted.aborted) {
      show.update(await draw());
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

function redrawing({ stdout }: Io): Show {
  const update = createLogUpdate(stdout);
  return {
    update,
    done: () => {
      update.done();
    },
  };
}

/** A log has no screen: each line is written once, when it first appears. */
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
