/** @file The three hundred seeds that `npm test` plays: two files share them, so that two cores do, in parts that say how far a slow machine has come. */

import { expect, test } from "vitest";
import { drawSettings } from "../../world/draw-settings.ts";
import { play } from "../../world/world.ts";
import { caseCount } from "../support/case-count.ts";

const SEEDS = 30;

/** Each part is thirty seeds, as harsh worlds: hostile ones take half as long again, and seeds of theirs are open (decision 158). The first is part 0. */
export function playParts(...parts: readonly number[]): void {
  test.each(parts)("a part of three hundred seeds breaks no law (%i)", (part) => {
    const broken: string[] = [];
    const count = caseCount(SEEDS);
    for (let seed = part * SEEDS + 1; seed <= part * SEEDS + count; seed += 1) {
      const { violation } = play(drawSettings(seed, { climate: "harsh" }));
      if (violation !== undefined) broken.push(`${seed}: ${violation.law}: ${violation.message}`);
    }
    expect(broken).toEqual([]);
  });
}
