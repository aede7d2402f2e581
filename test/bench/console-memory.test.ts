/** @file The memory of a console is measured on the process that `up` starts: it follows a small fleet, archives older runs and shows them. */

import { expect, test } from "vitest";
import { measureMemory } from "../../bench/console/memory-part.ts";

test(
  "a console beside made-up histories shows every instant, and ends",
  { timeout: 600_000 },
  async () => {
    const sizes: Readonly<Record<string, number>> = { hosts: 8, waiting: 20, cycles: 8 };
    const bars = await measureMemory({
      seed: 1,
      size: (name) => sizes[name] ?? 0,
      text: () => undefined,
      flag: () => false,
      chosen: () => [],
      say: () => undefined,
      interrupted: new AbortController().signal,
      env: {},
    });
    const got = new Map(bars.map((bar) => [bar.id, Number(bar.got)]));
    const [loaded = 0, following = 0, most = 0] = ["-loaded", "-following", ""].map((part) =>
      got.get(`console-memory${part}`),
    );
    expect(loaded).toBeGreaterThan(20);
    expect(following).toBeGreaterThanOrEqual(loaded);
    expect(most).toBeGreaterThanOrEqual(following);
  },
);
