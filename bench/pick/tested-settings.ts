/**
 * @file What the settings of nccl-tests change: bandwidth by message size, and by collective; the paper's figure 11.
 *
 * The paper's own measurements for it are not published; these are of two to eight A100 GPUs of one host (data/nccl-tests). They show the
 * same two things: below some megabytes bandwidth tells little of the GPUs, and the order of the sets is much the same whatever the
 * collective.
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { NcclRun } from "../../domain/bandwidth/nccl-run.ts";
import { parseNcclTests } from "../../domain/bandwidth/parse-nccl-tests.ts";
import { packageRoot } from "../../workers/server/package-root.ts";

export interface TestedSetting {
  readonly op: string;
  readonly gpus: number;
  readonly run: NcclRun;
}

const TESTS_DIR = join(packageRoot(), "data", "nccl-tests", "coreweave-a100-1host");

export function readTestedSettings(dir = TESTS_DIR): readonly TestedSetting[] {
  const files = readdirSync(dir).filter((name) => name.endsWith(".txt"));
  return files.sort().flatMap((name): readonly TestedSetting[] => {
    const [, op, gpus] = /^(.+)_(\d+)\.txt$/.exec(name) ?? [];
    const source = join(dir, name);
    const parsed = parseNcclTests(readFileSync(source, "utf8"), { source });
    if (op === undefined || parsed.kind === "refused") return [];
    return parsed.runs.map((run) => ({ op, gpus: Number(gpus), run }));
  });
}
