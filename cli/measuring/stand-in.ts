/** @file Assigns hosts of a stand-in's file to hosts of the fleet: the i-th of a type to the i-th, cyclically. */

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { BandwidthTable } from "../../domain/bandwidth/bandwidth-table.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { harmless } from "../../domain/values/file-problem.ts";
import type { HostShape } from "../../domain/fleet/fleet.ts";
import type { StandIn } from "../../domain/bandwidth/measuring.ts";
import { parseBandpilotCsv } from "../../domain/bandwidth/parse-bandpilot-csv.ts";
import { problemText } from "../../domain/values/problem.ts";

export interface StandInSettings {
  /** A file of sets inside hosts, and one of sets over hosts. */
  readonly files: readonly string[];
  readonly cwd: string;
  readonly seed: number;
  readonly delayMs: number;
}

/** Relative scatter of readings; repeats in the paper's data differ by 0.1 to 2.8 per cent. */
const NOISE = 0.005;

export function standInFor(hosts: readonly HostShape[], settings: StandInSettings): StandIn {
  const { files, cwd, seed, delayMs } = settings;
  const tables = files.map((file) => ({ path: resolve(cwd, file), table: tableIn(cwd, file) }));
  const intra = tables.find(({ table }) => table.intraHost.some((inside) => inside !== null));
  const inter = tables.find(({ table }) => table.sets.length > 0);
  if (intra === undefined) {
    throw badInput(
      `--stand-in ${files.join(",")} has no sets inside hosts. Give host,mask,bandwidth_gbs rows.`,
    );
  }
  const turns = new Map<string, number>();
  const names = hosts.map(({ id, gpuType, gpuCount }) => {
    const known = intra.table.hosts.filter((_, at) => {
      const inside = intra.table.intraHost[at];
      return inside && inside.gpuCount >= gpuCount;
    });
    const fitting = known.filter(
      (name) => typeWord(name.replace(/[_-]\d+$/, "")) === typeWord(gpuType),
    );
    const turn = turns.get(gpuType) ?? 0;
    turns.set(gpuType, turn + 1);
    const name = fitting[turn % Math.max(1, fitting.length)];
    if (name === undefined) {
      throw badInput(
        `the stand-in has no ${gpuType} host with ${String(gpuCount)} GPUs for ${id}, only ${known.map(harmless).join(", ")}. Give a file that has one.`,
      );
    }
    return [id, name] as const;
  });
  return {
    intra: intra.path,
    ...(inter !== undefined && { inter: inter.path }),
    names: Object.fromEntries(names),
    seed,
    noise: NOISE,
    delayMs,
  };
}

/** The paper's 4090 is a fleet's RTX4090. */
const typeWord = (type: string): string =>
  type
    .toUpperCase()
    .replace(/[^A-Z0-9]/g, "")
    .replace(/^RTX/, "");

function tableIn(cwd: string, file: string): BandwidthTable {
  let text: string;
  try {
    text = readFileSync(resolve(cwd, file), "utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw badInput(
      `--stand-in ${harmless(file)} cannot be read (${harmless(reason)}). Name a CSV file.`,
    );
  }
  const parsed = parseBandpilotCsv(text, { source: file });
  if (parsed.kind === "parsed") return parsed.table;
  throw badInput(parsed.problems.map((problem) => problemText(file, problem)).join("\n"));
}

const badInput = (message: string): OrbweaverError => new OrbweaverError("BAD_INPUT", message);
