/** @file `bench interactive` with a few keys, bytes and sessions, as a user starts it: real processes, one document, nothing left on the server. */

import { expect, it } from "vitest";
import { terminalTrouble } from "../../agent/sessions/terminal.ts";
import { benchRunsLeft, runBench } from "../support/bench-run.ts";
import { serverAddress } from "../support/server-address.ts";

const SIZES = ["--keys", "3", "--megabytes", "2", "--rounds", "1"];
const SESSIONS = ["--sessions", "3", "--session-keys", "2"];

it.skipIf(terminalTrouble() !== undefined)(
  "measures keys, bytes and sessions at once, where the host has `script`, and ends what it has started",
  async () => {
    const address = serverAddress();
    const ran = await runBench("interactive", address, [...SIZES, ...SESSIONS]);
    const { name, holds, bars, code } = ran;
    expect(name).toBe("interactive");
    const got = new Map(bars.map((bar) => [bar.id, bar.got]));
    expect(got.get("sessions-at-once")).toBe(3);
    for (const id of ["echo-p50", "output-rate", "input-rate", "sessions-echo-p50"])
      expect(got.get(id), id).toBeGreaterThan(0);
    // On a busy machine a bar may not hold; the exit status says so either way.
    expect(code).toBe(holds ? 0 : 1);
    expect(await benchRunsLeft(address)).toBe(0);
  },
);
