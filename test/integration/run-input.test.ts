/** @file `run --input`, `run --pty` and `attach` on a fleet that `up` has started: input, terminal, status, and no job that outlives its user. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openScratch, type Scratch } from "../docs/pages.ts";

const LONG_MS = 700_000;

let scratch: Scratch;
beforeAll(() => {
  scratch = openScratch();
  scratch.run("orbweaver up");
}, LONG_MS);
afterAll(() => {
  scratch.run("orbweaver down --stop-jobs --purge");
  scratch.remove();
}, LONG_MS);

/** Standard output of the command with its status behind it. */
const ended = (command: string): string => scratch.run(`${command} && echo "= 0" || echo "= $?"`);
const stateOf = (job: string): string =>
  scratch.run(`orbweaver status ${job} --json`).match(/"state": "(\w+)"/)?.[1] ?? "unknown";

describe("a command with input", () => {
  it("gets it, and ends the job with its status", () => {
    expect(ended("printf 'a\\nb\\n' | orbweaver run --gpus 1 --input -- cat")).toBe("a\nb\n= 0\n");
    expect(ended("orbweaver run --gpus 1 --key seven --input -- sh -c 'exit 7' < /dev/null")).toBe(
      "= 7\n",
    );
    expect(stateOf("seven")).toBe("failed");
    expect(ended("orbweaver run --gpus 1 --input -- no-such-program < /dev/null")).toBe("= 127\n");
  });

  it("has the GPUs of its job, all on one host, and as one process", () => {
    const printed = ended(
      "orbweaver run --gpus 2 --input -- sh -c 'echo $CUDA_VISIBLE_DEVICES $WORLD_SIZE' < /dev/null",
    );
    expect(printed).toMatch(/^\d,\d 1\n= 0\n$/);
  });

  it("has a terminal where one is asked for", () => {
    const printed = ended(
      "orbweaver run --gpus 1 --pty -- sh -c 'test -t 0 && stty size' < /dev/null",
    );
    expect(printed).toMatch(/^24 80\r\n= 0\n$/);
  });

  it("ends with its job when nothing passes for the time of --idle", () => {
    expect(
      ended("orbweaver run --gpus 1 --key quiet --pty --idle 2s -- sleep 600 < /dev/null"),
    ).toBe("= 1\n");
    expect(["failed", "cancelled"]).toContain(stateOf("quiet"));
  });

  it("is refused where it would be several processes, or under a key that is taken", () => {
    expect(ended("orbweaver run --gpus 2 --launch per-gpu --input -- cat < /dev/null")).toBe(
      "= 2\n",
    );
    expect(ended("orbweaver run --gpus 1 --key seven --input -- sh -c 'exit 7' < /dev/null")).toBe(
      "= 1\n",
    );
  });

  it(
    "ends a while after its user was killed, and gives its GPUs back",
    () => {
      scratch.run(
        "orbweaver run --gpus 1 --key left --input -- sleep 600 < /dev/zero > /dev/null 2>&1 & echo $! > pid",
      );
      scratch.run("until orbweaver exec left -- true 2> /dev/null; do sleep 0.5; done");
      scratch.run('kill -9 "$(cat pid)"');
      scratch.run(
        'until orbweaver status left --json | grep -q \'"state": "failed"\'; do sleep 1; done',
      );
    },
    LONG_MS,
  );
});

describe("attach", () => {
  it("shows a job's output and ends with its status", () => {
    scratch.run("orbweaver submit --gpus 1 --key late -- sh -c 'sleep 2; echo out; exit 5'");
    expect(ended("orbweaver attach late")).toBe("out\n= 5\n");
    expect(ended("orbweaver attach nobody")).toBe("= 3\n");
  });
});
