/**
 * @file Free loopback ports for a server that must be able to restart on the same port.
 *
 * They are below the range of outgoing connections. A client that keeps trying to reach a dead server on a port of that range
 * can connect to itself, and so take the port from the restarting server.
 */
import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export const LOOPBACK = "127.0.0.1";

const LOWEST_PORT = 20_000;
/** Kubernetes' node ports begin here; Linux' outgoing ports at 32,768. */
const END_PORT = 30_000;
const DRAWS = 100;
const FREE_LOOK_EVERY_MS = 50;

/** A port on which nothing listens now; another process may still take it first. */
export async function drawFreePort(taken: ReadonlySet<number> = new Set()): Promise<number> {
  for (let draw = 0; draw < DRAWS; draw += 1) {
    const port = randomInt(LOWEST_PORT, END_PORT);
    if (!taken.has(port) && (await isFree(port))) return port;
  }
  throw new Error(`no free port on ${LOOPBACK} among ${String(DRAWS)} drawn`);
}

/** Whether `port` is free within `patienceMs`; a server that was just killed may still close it. */
export async function becomesFree(port: number, patienceMs: number): Promise<boolean> {
  const deadlineMs = performance.now() + patienceMs;
  while (!(await isFree(port))) {
    if (performance.now() > deadlineMs) return false;
    await sleep(FREE_LOOK_EVERY_MS);
  }
  return true;
}

async function isFree(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => {
      resolve(false);
    });
    probe.listen({ port, host: LOOPBACK, exclusive: true }, () => {
      probe.close(() => {
        resolve(true);
      });
    });
  });
}
