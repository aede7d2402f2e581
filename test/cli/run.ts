/** @file Runs the command in this process with an outside of the test's own, and keeps what it said. */

import { Writable } from "node:stream";
import { NVML_VARIABLE } from "../../agent/system/gpu-driver.ts";
import type { Io, OutputStream } from "../../cli/terminal/io.ts";
import { runCli } from "../../cli/program.ts";
import type { OpenSession, Session } from "../../cli/command/session.ts";
import type { Client } from "@temporalio/client";
import { fleetTrust } from "../../client/agent-trust.ts";
import type { OrbweaverClient } from "../../client/index.ts";
import { isolatedConnection } from "../../workers/connection.ts";

export interface Outside {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly cwd?: string;
  readonly isTerminal?: boolean;
  /** What somebody at the terminal answers to a question; nobody is there without it. */
  readonly typed?: string;
  readonly columns?: number;
  readonly nowMs?: number;
  /** What stands for the client library; verbs that connect fail without it. */
  readonly client?: Partial<OrbweaverClient>;
  /** What stands for Temporal's own client, where a verb looks at the job's workflow itself. */
  readonly temporal?: object;
  /** In place of `client`: how a connection fails. */
  readonly openSession?: OpenSession;
  readonly interrupted?: AbortSignal;
}

export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export async function run(words: readonly string[], outside: Outside = {}): Promise<Said> {
  const stdout = collector(outside);
  const stderr = collector(outside);
  const io: Io = {
    stdout: stdout.stream,
    stderr: stderr.stream,
    readInput: () => Promise.resolve(outside.input ?? ""),
    ...(outside.typed !== undefined && {
      askLine: (question: string) => {
        stderr.stream.write(question);
        return Promise.resolve(outside.typed ?? "");
      },
    }),
    // A machine with GPUs of its own must not answer in place of a stand-in.
    env: { HOME: "/nonexistent", [NVML_VARIABLE]: "off", ...outside.env },
    cwd: outside.cwd ?? process.cwd(),
    nowMs: () => outside.nowMs ?? 0,
    interrupted: outside.interrupted ?? new AbortController().signal,
  };
  const { client, temporal, openSession } = outside;
  const code = await runCli(words, {
    io,
    ...(openSession !== undefined && { openSession }),
    ...(client !== undefined && { openSession: fake(client, temporal) }),
  });
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}

/** A session around a part of the client; what a test does not give, it must not use. */
function fake(client: Partial<OrbweaverClient>, temporal?: object): OpenSession {
  const connection = isolatedConnection({
    address: "fake:1",
    namespace: "default",
    uiUrl: "http://ui",
  });
  // As the library asks Temporal.
  const trust: OrbweaverClient["trust"] = (ledger) =>
    fleetTrust(temporal as Client, "default", ledger);
  const session = {
    fleet: "default",
    client: "trust" in client ? client : { ...client, trust },
    temporal,
    connection,
    ready: Promise.resolve(),
    close: () => Promise.resolve(),
  };
  // Only the parts that the verb under test touches exist.
  return () => Promise.resolve(session as unknown as Session);
}

function collector({ isTerminal, columns }: Outside): {
  readonly stream: OutputStream;
  readonly text: () => string;
} {
  let text = "";
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string, _encoding, done) {
      text += chunk;
      done();
    },
  });
  Object.assign(stream, { isTTY: isTerminal === true, columns: columns ?? 80 });
  return { stream, text: () => text };
}
