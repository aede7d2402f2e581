/**
 * @file A small process of the agent's that starts native supervisors (`agent/native/starter.c`): the agent itself would copy the tables of its
 * whole memory for each.
 *
 * It ends when the agent does, however that ends; what it has started runs on. One that has ended before is not started again: whoever asks starts
 * supervisors itself from then on. One that does not take a request in time is stopped, or its cgroup frozen: it gets no other until it says something. Cost of a start: a write, where a fork of an agent of 140 MiB took 7 ms of processor time.
 */

import { spawn } from "node:child_process";
import { Socket } from "node:net";
import { createInterface } from "node:readline";
import type { Starter, SupervisorStart } from "../ports/starter.ts";

/** Of its request without the size, as in `starter.c`. */
const MOST_BYTES = 256 * 1_024;
const SIZE_BYTES = 4;
/** To take a request is a fork of a process without memory to speak of. */
const TAKEN_WITHIN_MS = 2_000;

/** A request whose end was not told. */
interface Waiting {
  readonly onEnd: () => void;
  readonly untaken: NodeJS.Timeout;
  isTaken: boolean;
}

/** `program`: the native supervisor. It takes nothing more once `closing` is aborted. */
export function openStarter(program: string, closing: AbortSignal): Starter {
  // A session of its own: what is sent to the agent's terminal is not for it, because it ends after the agent.
  const child = spawn(program, ["--starter"], {
    ...{ cwd: "/", env: {}, detached: true },
    stdio: ["pipe", "pipe", "ignore"],
  });
  child.on("error", () => undefined);
  // Without descriptors there are no streams either.
  if (child.pid === undefined) return { pid: undefined, start: () => false };
  const { pid, stdin, stdout } = child;
  const waiting = new Map<string, Waiting>();
  let started = 0;
  let isGone = false;
  let isSilent = false;
  const end = (number: string): void => {
    const each = waiting.get(number);
    waiting.delete(number);
    clearTimeout(each?.untaken);
    each?.onEnd();
  };
  const take = (number: string): void => {
    const each = waiting.get(number);
    if (each === undefined) return;
    clearTimeout(each.untaken);
    each.isTaken = true;
  };
  const leave = (): void => {
    isGone = true;
    for (const number of [...waiting.keys()]) end(number);
  };
  child.once("exit", leave);
  for (const stream of [stdin, stdout]) stream.on("error", leave);
  closing.addEventListener("abort", () => stdin.end(), { once: true });
  const lines = createInterface({ input: stdout });
  // It passes on what the stream has, and ends the agent where nobody hears that.
  lines.on("error", leave);
  lines.on("line", (line) => {
    isSilent = false;
    if (line.startsWith("+")) take(line.slice(1));
    else end(line);
  });
  child.unref();
  for (const stream of [stdin, stdout]) if (stream instanceof Socket) stream.unref();
  return {
    pid,
    start: ({ folder, env, output, onEnd }) => {
      const request = requestOf(started + 1, { folder, env, output });
      if (isGone || isSilent || closing.aborted || request === undefined) return false;
      started += 1;
      const number = String(started);
      const giveUp = (): void => {
        if (waiting.get(number)?.isTaken !== false) return;
        isSilent = true;
        end(number);
      };
      // What it has said while this process was busy is read in between.
      const untaken = setTimeout(() => setImmediate(giveUp), TAKEN_WITHIN_MS);
      waiting.set(number, { onEnd, untaken, isTaken: false });
      stdin.write(request);
      return true;
    },
  };
}

/** Undefined where it is too long. */
function requestOf(
  number: number,
  { folder, env, output }: Omit<SupervisorStart, "onEnd">,
): Buffer | undefined {
  const variables = Object.entries(env).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${value}`],
  );
  const words = [String(number), folder, output, ...variables].map((word) => `${word}\0`).join("");
  const size = Buffer.byteLength(words);
  if (size > MOST_BYTES) return undefined;
  const request = Buffer.alloc(SIZE_BYTES + size);
  request.writeUInt32LE(size);
  request.write(words, SIZE_BYTES);
  return request;
}
