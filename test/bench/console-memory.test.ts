/** @file The memory of a console is measured on the process that `up` starts: it follows a small fleet, archives older runs and shows them. */

import { expect, test } from "vitest";
import { measureMemory } from "../../bench/console/memory-part.ts";
import { benchRequest } from "../support/bench-request.ts";

test(
  "a console beside made-up histories shows every instant, and ends",
  { timeout: 600_000 },
  async () => {
    const sizes: Readonly<Record<string, number>> = { hosts: 8, waiting: 20, cycles: 8 };
    const bars = await measureMemory(benchRequest({ size: (name) => sizes[name] ?? 0 }));
    // Each question is answered, or it throws; what is taken never falls, so it says nothing of what was followed.
    const got = new Map(bars.map((bar) => [bar.id, Number(bar.got)]));
    for (const part of ["", "-following", "-loaded"])
      expect(got.get(`console-memory${part}`)).toBeGreaterThan(20);
  },
);
