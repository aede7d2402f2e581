/** @file Asks a Temporal server for a namespace until it answers. */
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Connection } from "@temporalio/client";

const ASK_EVERY_MS = 50;
const CONNECT_WITHIN_MS = 2_000;

export interface ReadyOptions {
  readonly host: string;
  readonly port: number;
  readonly namespace: string;
  /** Aborted when further attempts are useless. */
  readonly signal: AbortSignal;
}

/** Resolves when the server answered or `signal` aborted; every refusal goes to `onRefusal`. */
export async function untilReady(
  options: ReadyOptions,
  onRefusal: (reason: string) => void,
): Promise<void> {
  const { host, port, namespace, signal } = options;
  while (!signal.aborted) {
    try {
      // A plain connect first: gRPC would wait a second after each refused one.
      await reach(host, port);
      await describe(`${host}:${String(port)}`, namespace);
      return;
    } catch (error) {
      onRefusal(error instanceof Error ? error.message : String(error));
    }
    await sleep(ASK_EVERY_MS);
  }
}

async function reach(host: string, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const socket = connect({ host, port });
    socket.setTimeout(CONNECT_WITHIN_MS, () => socket.destroy(new Error("no connection in time")));
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.destroy();
      resolve();
    });
  });
}

async function describe(address: string, namespace: string): Promise<void> {
  const connection = await Connection.connect({ address, connectTimeout: CONNECT_WITHIN_MS });
  try {
    await connection.withDeadline(Date.now() + CONNECT_WITHIN_MS, () =>
      connection.workflowService.describeNamespace({ namespace }),
    );
  } finally {
    await connection.close();
  }
}
