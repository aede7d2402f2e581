/** @file Commands in README.md and docs/ that are marked runnable and need a fleet do run; each block in a state folder of its own. */

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { blocksThatNeed, openScratch, type Scratch } from "../docs/pages.ts";

/** A block starts and ends a fleet of its own; on a busy machine that alone takes minutes. Longer than two calls of `run` may take. */
const TIMEOUT_MS = 1_300_000;

/** A worker that starts on demand may take longer than the server lets the first question wait. */
const UP = "orbweaver up; until orbweaver fleet show > /dev/null; do sleep 1; done";

/** What a reader should see, by a part of the block that prints it. */
const WANTED = [
  { commands: "--key hello", output: /rank 1 of 2 on GPUs \d,\d/ },
  { commands: "explain large", output: /large will never start/ },
];

let scratch: Scratch;
beforeEach(() => {
  scratch = openScratch();
});
afterEach(() => {
  try {
    scratch.run("orbweaver down --stop-jobs --purge");
  } finally {
    scratch.remove();
  }
}, TIMEOUT_MS);

const blocks = blocksThatNeed("fleet").map((block) => ({
  ...block,
  place: `${block.file}:${block.line}`,
}));

describe("runnable blocks on a fleet", () => {
  it.each(blocks)(
    "$place runs",
    ({ commands }) => {
      if (!commands.includes("orbweaver up")) scratch.run(UP);
      const output = scratch.run(commands);
      for (const wanted of WANTED)
        if (commands.includes(wanted.commands)) expect(output).toMatch(wanted.output);
    },
    TIMEOUT_MS,
  );
});
