/**
 * @file Whether the cost model is still the one that was frozen before the search was tuned (decision 31), cell by cell.
 *
 * `data/inference/frozen-costs.txt` has a digest of every time, size and speed of each cell as the frozen commit reckoned them; numbers
 * count with nine digits. It was written by that commit's own code, and is not written again.
 */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { PlanningProblem } from "../../planning/inference/problem.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { barOf, exactly, type Bar } from "../bar.ts";
import { cellName, type Cell } from "./cells.ts";

const DIGEST_LENGTH = 16;

function costDigest(problem: PlanningProblem): string {
  const hash = createHash("sha256");
  const { kernelMs, directMs, directBytes, outputBytes, parameterBytes } = problem;
  const { busMsPerByte, peerMsPerByte, memoryBytes, inputs, parametersOf } = problem;
  const numbers = { kernelMs, directMs, directBytes, outputBytes, parameterBytes };
  const speeds = { busMsPerByte, peerMsPerByte, memoryBytes };
  for (const [key, values] of Object.entries({ ...numbers, ...speeds }))
    hash.update(`${key} ${Array.from(values, (value) => value.toPrecision(9)).join(" ")}\n`);
  for (const [key, { start, items }] of Object.entries({ inputs, parametersOf }))
    hash.update(`${key} ${[...start, ...items].join(" ")}\n`);
  hash.update(`busOf ${[...problem.busOf].join(" ")} copyMs ${problem.copyMs}`);
  return hash.digest("hex").slice(0, DIGEST_LENGTH);
}

export function frozenBar(cells: readonly Cell[]): Bar {
  const file = join(packageRoot(), "data", "inference", "frozen-costs.txt");
  const frozen = new Map(
    readFileSync(file, "utf8")
      .split("\n")
      .map((line) => [line.slice(0, -DIGEST_LENGTH - 1), line.slice(-DIGEST_LENGTH)] as const),
  );
  const changed = cells.filter((cell) => frozen.get(cellName(cell)) !== costDigest(cell.problem));
  return barOf({
    id: "cells whose costs are not the frozen ones",
    unit: "cells",
    target: exactly(0),
    got: changed.length,
    note:
      changed.map(cellName).join(", ") ||
      `of ${cells.length}; times, sizes and speeds as before the search was tuned (decision 31)`,
  });
}
