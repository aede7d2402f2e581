/** @file `bench live` on a few jobs, as a user starts it: real processes beside the floor, one document, nothing left on the server. */

import { Client, Connection } from "@temporalio/client";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, inject, it } from "vitest";

const CLI = join(import.meta.dirname, "../../dist/cli/main.js");

it("measures a job and the floor, and ends what it has started", async () => {
  const address = inject("temporalAddress");
  const sizes = ["--only", "granted,jobs", "--rounds", "2", "--jobs", "3", "--blocks", "1"];
  const child = spawn(
    process.execPath,
    [CLI, "bench", "live", "--json", "--address", address, ...sizes],
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
  expect(name).toBe("live");
  expect(bars.map(({ id }) => id)).toEqual(
    expect.arrayContaining(["granted-ratio", "running-p99", "jobs", "floor-jobs", "jobs-ratio"]),
  );
  for (const { id, got } of bars) expect(got, id).toBeGreaterThan(0);
  // On a busy machine a bar may not hold; the exit status says so either way.
  expect(code).toBe(holds ? 0 : 1);

  const connection = await Connection.connect({ address });
  const { workflow } = new Client({ connection });
  const left = await workflow.count(
    'WorkflowId STARTS_WITH "bench-" AND ExecutionStatus = "Running"',
  );
  await connection.close();
  expect(left.count).toBe(0);
}, 240_000);
