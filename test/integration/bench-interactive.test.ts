/** @file `bench interactive` with a few keys, bytes and sessions, as a user starts it: real processes, one document, nothing left on the server. */

import { Client, Connection } from "@temporalio/client";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, inject, it } from "vitest";
import { terminalTrouble } from "../../agent/sessions/terminal.ts";

const CLI = join(import.meta.dirname, "../../dist/cli/main.js");
const SIZES = ["--keys", "3", "--megabytes", "2", "--rounds", "1"];
const SESSIONS = ["--sessions", "3", "--session-keys", "2"];

it.skipIf(terminalTrouble() !== undefined)(
  "measures keys, bytes and sessions at once, where the host has `script`, and ends what it has started",
  async () => {
    const address = inject("temporalAddress");
    const child = spawn(
      process.execPath,
      [CLI, "bench", "interactive", "--json", "--address", address, ...SIZES, ...SESSIONS],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    const [code] = await once(child, "close");
    const { name, holds, bars } = JSON.parse(stdout) as {
      readonly name: string;
      readonly holds: boolean;
      readonly bars: readonly { readonly id: string; readonly got: number | null }[];
    };
    expect(name).toBe("interactive");
    const got = new Map(bars.map((bar) => [bar.id, bar.got]));
    expect(got.get("sessions-at-once")).toBe(3);
    for (const id of ["echo-p50", "output-rate", "input-rate", "sessions-echo-p50"])
      expect(got.get(id), id).toBeGreaterThan(0);
    // On a busy machine a bar may not hold; the exit status says so either way.
    expect(code).toBe(holds ? 0 : 1);

    const connection = await Connection.connect({ address });
    const { workflow } = new Client({ connection });
    const left = await workflow.count(
      'WorkflowId STARTS_WITH "bench-" AND ExecutionStatus = "Running"',
    );
    await connection.close();
    expect(left.count).toBe(0);
  },
  240_000,
);
