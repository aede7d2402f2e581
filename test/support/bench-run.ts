/** @file A bench over a server as a user starts it: real processes and one document. */

import { Client, Connection } from "@temporalio/client";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

const CLI = join(import.meta.dirname, "../../dist/cli/main.js");

interface BenchDocument {
  readonly name: string;
  readonly holds: boolean;
  readonly bars: readonly { readonly id: string; readonly got: number | null }[];
}

export async function runBench(
  name: string,
  address: string,
  words: readonly string[],
): Promise<BenchDocument & { readonly code: unknown }> {
  const child = spawn(
    process.execPath,
    [CLI, "bench", name, "--json", "--address", address, ...words],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  let stdout = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  const [code] = (await once(child, "close")) as readonly unknown[];
  return { ...(JSON.parse(stdout) as BenchDocument), code };
}

/** Workflows of benches that still run on the server. */
export async function benchRunsLeft(address: string): Promise<number> {
  const connection = await Connection.connect({ address });
  const { workflow } = new Client({ connection });
  const left = await workflow.count(
    'WorkflowId STARTS_WITH "bench-" AND ExecutionStatus = "Running"',
  );
  await connection.close();
  return left.count;
}
