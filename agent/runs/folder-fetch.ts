/**
 * @file Has the submitter's folder on this host before the gang starts, for a job with `run.folder`: a copy for each lease, the job's user's own.
 *
 * A program of its own gets it, as that user, and checks every part against its hash. A later batch of tasks of the lease finds the copy as the former ones left it.
 */

import { dirname, join } from "node:path";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { failure } from "../system/failures.ts";
import type { LocalRun } from "./local-run.ts";
import { runStep, type PrepareStep } from "./prepare-step.ts";

export interface FolderFetch extends Omit<PrepareStep, "host" | "run"> {
  readonly order: RunOrder;
  readonly ports: PrepareStep["ports"] & { readonly shimPath: string };
}

const TIMEOUT_MS = 120_000;
/** How TLS and proxies of this machine are told to programs. */
const PASSED_ON = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/** The copy of a lease. */
export const copyIn = (leaseDir: string): string => join(leaseDir, "folder");

/** Returns when the folder is there, or when the signal has come. Throws FOLDER_UNAVAILABLE. */
export async function fetchFolder(
  host: PrepareStep["host"],
  run: LocalRun,
  { order, ports, signal }: FolderFetch,
): Promise<void> {
  const { folder } = order.run;
  if (folder === undefined) return;
  const { files } = host.system;
  const leaseDir = host.layout.leaseDir(order.leaseId);
  const mark = join(leaseDir, "folder.hash");
  if (files.readText(mark) === folder.hash) return;
  const copy = copyIn(leaseDir);
  // What a former attempt has left may be the half of it.
  files.remove(copy);
  files.makeFolder(copy);
  const program = join(dirname(ports.shimPath), "receive-folder.js");
  const why = await runStep(
    { host, run, order, ports, signal },
    {
      command: [process.execPath, program, copy, folder.hash, ...folder.from],
      env: Object.fromEntries(PASSED_ON.map((name) => [name, ports.env[name]])),
      output: "folder.log",
      timeoutMs: TIMEOUT_MS,
      folders: [copy],
    },
  );
  if (signal.aborted) return;
  if (why === undefined) return files.write(mark, folder.hash);
  throw failure(
    "FOLDER_UNAVAILABLE",
    `${order.host} cannot get the folder of ${order.jobName} for ${order.leaseId}: ${why}. Submit it again with --sync; agents on other machines need \`orbweaver api --port\` with --cert and --key.`,
  );
}
