/**
 * @file Values that no moving, renaming or recutting of code may change: plans, GPU sets, cuts, times, against frozen digests.
 *
 * The unit tests check the quick cases. `npm run digests` checks all of them, `-- --only queue` those of one subject, and `-- --write`
 * freezes what it finds, for a change that is meant to decide otherwise. `digests.json` has no other writer.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import { collectivesCases } from "./collectives.ts";
import type { DigestCase } from "./digest.ts";
import { inferenceCases } from "./inference.ts";
import { pickCases } from "./pick.ts";
import { placementCases } from "./placement.ts";
import { planCases } from "./plan.ts";
import { queueCases } from "./queue.ts";

type Frozen = Readonly<Record<string, Readonly<Record<string, string>>>>;

const FILE = new URL("digests.json", import.meta.url);
const SUBJECTS: Readonly<Record<string, readonly DigestCase[]>> = {
  queue: queueCases,
  pick: pickCases,
  placement: placementCases,
  plan: planCases,
  inference: inferenceCases,
  collectives: collectivesCases,
};

const isAll = process.env["ORBWEAVER_DIGESTS"] === "all";
const isWriting = isAll && process.env["ORBWEAVER_DIGESTS_WRITE"] === "yes";
const only = process.env["ORBWEAVER_DIGESTS_ONLY"];
const MOST_MS = 600_000;

const frozen: Frozen = JSON.parse(readFileSync(FILE, "utf8"));
const found = new Map<string, Map<string, string>>();

for (const [subject, cases] of Object.entries(SUBJECTS)) {
  if (only !== undefined && only !== subject) continue;
  describe(`the values of ${subject} are the frozen ones`, () => {
    for (const each of cases.filter(({ isQuick }) => isAll || isQuick))
      test(each.name, { timeout: MOST_MS }, async (context) => {
        const digested = await each.run();
        if ("skipped" in digested) return context.skip(digested.skipped);
        const own = found.get(subject) ?? new Map<string, string>();
        found.set(subject, own.set(each.name, digested.digest));
        if (!isWriting) expect(digested.digest).toBe(frozen[subject]?.[each.name]);
      });
  });
}

if (isAll && only === undefined && !isWriting)
  test("every frozen digest has its case", () => {
    const wanted = Object.entries(SUBJECTS).map(
      ([subject, cases]) => [subject, cases.map(({ name }) => name).sort()] as const,
    );
    expect(
      Object.entries(frozen).map(([subject, digests]) => [subject, Object.keys(digests).sort()]),
    ).toEqual(wanted);
  });

/** What was skipped or not asked for keeps its digest; what no case has any more goes. */
afterAll(() => {
  if (!isWriting) return;
  const digests = Object.entries(SUBJECTS).map(([subject, cases]) => [
    subject,
    Object.fromEntries(
      cases.flatMap(({ name }) => {
        const digest = found.get(subject)?.get(name) ?? frozen[subject]?.[name];
        return digest === undefined ? [] : [[name, digest]];
      }),
    ),
  ]);
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(digests), null, 2)}\n`);
});
