/** @file Reads the input files of a simulation: a trace, plain or gzipped, and a fleet file or a machine list. */

import { readFileSync } from "node:fs";
import { basename, extname, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { problemText, type Refused } from "../../domain/values/problem.ts";
import { nodeFleet } from "../../simulator/readers/node-fleet.ts";
import { looksLikeNodes, readNodes } from "../../simulator/readers/nodes.ts";
import { readTrace, type TraceFormat } from "../../simulator/readers/read-trace.ts";
import type { TraceAccount, TraceJobs } from "../../simulator/readers/trace.ts";
import { readFleet, readText } from "../command/fleet-files.ts";

/** Limit of an unpacked trace: more than a year of a large cluster, less than a decompression bomb. */
const MAX_UNPACKED_BYTES = 400 * 1024 * 1024;

export interface ReadTrace {
  readonly trace: TraceJobs & { readonly format: TraceFormat };
  /** Name of the workload: the file's name without its ending. */
  readonly name: string;
}

export function traceAt(
  file: string,
  cwd: string,
  options: { readonly format?: TraceFormat },
): ReadTrace {
  const read = readTrace(unpackedText(file, cwd, "a trace"), { source: file, ...options });
  if (read.kind === "refused") throw refusedError(read);
  if (read.kind === "load") {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} is the load of a cluster (${String(read.samples.length)} samples), not its jobs: it does not say when a job came or how long it ran, so nothing can be scheduled. Give a trace of jobs, e.g. of Helios Venus.`,
    );
  }
  return { trace: read, name: traceName(file) };
}

export interface ReadFleet {
  readonly shape: FleetShape;
  /** Of a machine list: the use of its rows. */
  readonly account?: TraceAccount;
}

/** A machine list is recognised by its header line; other files are read as fleet files. */
export function fleetAt(file: string, cwd: string): ReadFleet {
  const isList = /\.(csv|csv\.gz)$/.test(file);
  if (!isList) return { shape: readFleet(file, cwd).shape };
  const text = unpackedText(file, cwd, "a fleet file or a list of machines");
  if (!looksLikeNodes(text)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} is not a list of machines: its header names no machine and GPU columns. Name them e.g. sn,gpu,model, or give a fleet.yaml.`,
    );
  }
  const list = readNodes(text, { source: file });
  if (list.kind === "refused") throw refusedError(list);
  return { shape: nodeFleet(list.nodes), account: list.account };
}

function refusedError({ source, problems }: Refused): OrbweaverError {
  const lines = problems.map((problem) => problemText(source, problem));
  return new OrbweaverError("BAD_INPUT", lines.join("\n"), { details: { problems } });
}

function unpackedText(file: string, cwd: string, what: string): string {
  const path = resolve(cwd, file);
  if (!isGzip(path)) {
    const text = readText(path);
    if (text.kind === "text") return text.text;
    throw new OrbweaverError("BAD_INPUT", `${file} ${text.reason}. Name ${what}.`);
  }
  try {
    return gunzipSync(readFileSync(path), { maxOutputLength: MAX_UNPACKED_BYTES }).toString("utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} cannot be unpacked (${reason}). Give a whole gzip file of at most ${String(MAX_UNPACKED_BYTES / 2 ** 20)} MiB unpacked.`,
    );
  }
}

/** Recognised by its first bytes, whatever its name. */
function isGzip(path: string): boolean {
  try {
    const bytes = readFileSync(path);
    return bytes[0] === 0x1f && bytes[1] === 0x8b;
  } catch {
    return false;
  }
}

function traceName(file: string): string {
  const name = basename(file).replace(/\.gz$/, "");
  return name.slice(0, name.length - extname(name).length);
}
