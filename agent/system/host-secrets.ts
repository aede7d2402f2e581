/**
 * @file Looks up the secrets of an order on this host: a file, a variable of the agent, or the output of a command.
 *
 * Files are read and commands run as the job's user, by programs that become that user first, so that an agent of root reads nothing for a
 * job that the job could not read. Values stay in memory, and what programs say of their trouble is not passed on: it might name them.
 * A few are looked up at once. Cost: one or two short processes each.
 */

import { spawn, type ChildProcessByStdio } from "node:child_process";
import { userInfo } from "node:os";
import type { Readable } from "node:stream";
import { becomeUser, type RunAs } from "../../access/run-as.ts";
import { isSecretName } from "../../domain/job/job-env.ts";
import { MAX_SECRETS, parseSecret, type SecretSource } from "../../domain/job/job-secret.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { ReadSecrets, SecretReading } from "../ports/secrets.ts";

export interface SecretSetup {
  readonly runAsOf?: (order: RunOrder) => RunAs | undefined;
  /** The agent's own environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly limits?: Partial<SecretLimits>;
}

export interface SecretLimits {
  readonly bytes: number;
  readonly timeoutMs: number;
}

/** A token is short; a key with its chain of certificates has a few thousand bytes. */
const LIMITS: SecretLimits = Object.freeze({ bytes: 32_768, timeoutMs: 10_000 });
/** Output that a process of the background holds open is not waited for. */
const DRAIN_MS = 250;
const AT_ONCE = 4;
const PATH = "/usr/local/bin:/usr/bin:/bin";
const SHELL = "/bin/sh";
const NOT_STARTED = "nothing could be started to look it up";
/** Quotes the path for itself, so that no path is taken for an option. */
const READ_FILE = 'exec head -c "$1" < "$2"';

type Found = { readonly value: string } | { readonly why: string };

export function hostSecrets({ runAsOf, env, limits }: SecretSetup): ReadSecrets {
  const { bytes, timeoutMs } = { ...LIMITS, ...limits };
  return async (order, signal) => {
    const runAs = runAsOf?.(order);
    const own = userInfo();
    const user = runAs?.user ?? { name: own.username, home: env["HOME"] ?? own.homedir };
    const program = (words: readonly string[]): Promise<Found> =>
      outputOf([...(runAs === undefined ? [] : becomeUser(runAs)), ...words], {
        env: {
          PATH: env["PATH"] ?? PATH,
          LANG: env["LANG"],
          HOME: user.home,
          USER: user.name,
          LOGNAME: user.name,
        },
        ...{ bytes, timeoutMs, signal },
      });
    const find = async (source: SecretSource): Promise<Found> => {
      switch (source.kind) {
        case "env": {
          const value = env[source.name];
          return value === undefined ? { why: "the agent has no such variable" } : { value };
        }
        case "file": {
          const path = source.path.replace(/^~/, user.home);
          return await program([SHELL, "-c", READ_FILE, "secret", String(bytes + 1), path]);
        }
        case "command":
          return await program([SHELL, "-c", source.line]);
      }
    };
    const read = async (reference: string): Promise<Found> => {
      const source = parseSecret(reference);
      if (source.kind === "refused") return { why: source.message };
      const found = await find(source.value);
      if ("why" in found) return found;
      if (Buffer.byteLength(found.value) > bytes)
        return { why: `it is longer than ${String(bytes)} bytes` };
      const value = found.value.replace(/[\r\n]+$/, "");
      if (value === "") return { why: "it is empty" };
      return value.includes("\0") ? { why: "it is no text" } : { value };
    };
    const names = Object.entries(order.run.secrets ?? {}).filter(([name]) => isSecretName(name));
    // An order that nobody signed may name any number.
    if (names.length > MAX_SECRETS)
      return { kind: "unavailable", why: `it names more than ${String(MAX_SECRETS)}` };
    const all: Looked[] = [];
    for (let at = 0; at < names.length; at += AT_ONCE) {
      const some = names.slice(at, at + AT_ONCE);
      all.push(
        ...(await Promise.all(
          some.map(async ([name, reference]) => ({
            ...{ name, reference, found: await read(reference) },
          })),
        )),
      );
    }
    return readingOf(all, user.name);
  };
}

interface Looked {
  readonly name: string;
  readonly reference: string;
  readonly found: Found;
}

function readingOf(all: readonly Looked[], user: string): SecretReading {
  const values = new Map<string, string>();
  for (const { name, reference, found } of all) {
    if ("why" in found)
      return {
        kind: "unavailable",
        why: `${name} (${JSON.stringify(reference)}, looked up as ${user}): ${found.why}`,
      };
    values.set(name, found.value);
  }
  return { kind: "read", values: Object.fromEntries(values) };
}

interface Bounds {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly bytes: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** What a program writes, when it ends with 0 in its time. Its process group is killed at its end. */
function outputOf(
  [program = "", ...words]: readonly string[],
  { env, bytes, timeoutMs, signal }: Bounds,
): Promise<Found> {
  return new Promise((resolve) => {
    let isOver = false;
    const pieces: Buffer[] = [];
    let size = 0;
    const child = spawned([program, ...words], env);
    if (child === undefined) {
      resolve({ why: NOT_STARTED });
      return;
    }
    child.on("error", () => {
      end({ why: NOT_STARTED });
    });
    const end = (found: Found): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      signal.removeEventListener("abort", callOff);
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        // The group has ended.
      }
      child.stdout?.destroy();
      resolve(found);
    };
    const callOff = (): void => {
      end({ why: "the run was called off" });
    };
    const timer = setTimeout(() => {
      end({ why: `it took longer than ${String(timeoutMs / 1_000)} s` });
    }, timeoutMs);
    signal.addEventListener("abort", callOff, { once: true });
    if (signal.aborted) callOff();
    child.stdout?.on("error", () => undefined);
    child.stdout?.on("data", (piece: Buffer) => {
      pieces.push(piece);
      size += piece.length;
      if (size > bytes + 2) end({ why: `it is longer than ${String(bytes)} bytes` });
    });
    const ended = (code: number | null): void => {
      if (code === 0) end(textOf(Buffer.concat(pieces)));
      else end({ why: code === null ? "it was killed" : whyOf(code) });
    };
    child.on("close", ended);
    child.on("exit", (code) => setTimeout(() => ended(code), DRAIN_MS));
  });
}

/** Where file descriptors are short it has no output, and says so later. */
function spawned(
  [program = "", ...words]: readonly string[],
  env: Bounds["env"],
): ChildProcessByStdio<null, Readable | null, null> | undefined {
  try {
    return spawn(program, words, {
      ...{ cwd: "/", env, detached: true },
      stdio: ["ignore", "pipe", "ignore"],
    });
  } catch {
    return undefined;
  }
}

const whyOf = (code: number): string => `it cannot be read, or fails (exit code ${String(code)})`;

function textOf(bytes: Buffer): Found {
  try {
    return { value: new TextDecoder("utf-8", { fatal: true }).decode(bytes) };
  } catch {
    return { why: "it is no text" };
  }
}
