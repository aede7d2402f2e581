/** @file The executor that really runs: `bench serving` at its usual sizes, for the two bars that the simulated executor cannot give. */

import type { BenchAnswer, BenchRequest } from "../bench.ts";
import { EXECUTOR_PARTS, servingBench } from "../serving.ts";

export function measureExecutor(request: BenchRequest): Promise<BenchAnswer> {
  const usual = new Map(
    servingBench.options.flatMap((option) =>
      option.kind === "size" ? [[option.name, option.usual] as const] : [],
    ),
  );
  return servingBench.run({
    ...request,
    size: (name) => usual.get(name) ?? 0,
    text: () => undefined,
    chosen: () => EXECUTOR_PARTS,
  });
}
