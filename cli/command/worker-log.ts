/** @file The log of a worker: JSON lines by pino on standard error, on a terminal one readable line each. */

import { pino, type Logger } from "pino";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { Io, OutputStream } from "../terminal/io.ts";
import { safeText } from "../terminal/safe-text.ts";

const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];

/** `ORBWEAVER_LOG_LEVEL` sets the level; `info` when it is not set. */
export function workerLogger(io: Io, role: string): Logger {
  const level = io.env["ORBWEAVER_LOG_LEVEL"] ?? "info";
  if (!LEVELS.includes(level)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `ORBWEAVER_LOG_LEVEL ${JSON.stringify(level)} is not a log level. Use ${LEVELS.join(", ")}.`,
    );
  }
  const destination = io.stderr.isTTY === true ? readable(io.stderr) : io.stderr;
  return pino({ level, base: { role, pid: process.pid } }, destination);
}

/** Lines as `12:34:56 WARN message key=value`. */
function readable(stream: OutputStream): { readonly write: (line: string) => void } {
  return {
    write: (line) => {
      stream.write(`${safeText(readableLine(line))}\n`);
    },
  };
}

function readableLine(line: string): string {
  const entry: unknown = JSON.parse(line);
  if (typeof entry !== "object" || entry === null) return line.trimEnd();
  const { level, time, msg, role: _role, pid: _pid, ...rest } = entry as Record<string, unknown>; // pino writes a map
  const clock = new Date(Number(time)).toISOString().slice(11, 19);
  const name = pino.levels.labels[Number(level)] ?? "info";
  const facts = Object.entries(rest).map(([key, value]) => ` ${key}=${plain(value)}`);
  return `${clock} ${name.toUpperCase()} ${String(msg ?? "")}${facts.join("")}`;
}

function plain(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
