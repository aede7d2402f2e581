import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ballotOf,
  reduceBallots,
  verdictOf,
  type Ballot,
  type Held,
} from "../../tuning/agreement.ts";

const NOTHING: Ballot = [-Infinity, -Infinity, -Infinity, -Infinity];
const vote = (ranks: readonly { held?: Held; calls: number }[]) =>
  verdictOf(ranks.map(({ held, calls }) => ballotOf(held, calls)).reduce(reduceBallots, NOTHING));
const seven: Held = { version: 7, checksum: 0xcafe, fromCall: 0 };

describe("the vote of the ranks", () => {
  it.each([
    { what: "all hold the same", ranks: [seven, seven], want: { version: 7, atCall: 12 } },
    { what: "one holds nothing", ranks: [seven, undefined], want: undefined },
    { what: "one holds an older one", ranks: [seven, { ...seven, version: 6 }], want: undefined },
    { what: "one holds other bytes", ranks: [seven, { ...seven, checksum: 1 }], want: undefined },
    { what: "nobody holds any", ranks: [undefined, undefined], want: undefined },
    {
      what: "the policy starts later",
      ranks: [
        { ...seven, fromCall: 40 },
        { ...seven, fromCall: 40 },
      ],
      want: { version: 7, atCall: 40 },
    },
  ])("when $what", ({ ranks, want }) => {
    const votes = ranks.map((held, rank) => ({ ...(held && { held }), calls: 10 + 2 * rank }));
    expect(vote(votes)).toEqual(
      want === undefined ? { kind: "keep" } : { kind: "switch", ...want },
    );
  });

  it("makes all switch to the same at a call that none has made, whatever they hold", () => {
    const held = fc.option(
      fc.record({
        version: fc.integer({ min: 1, max: 3 }),
        checksum: fc.integer({ min: 0, max: 2 }),
        fromCall: fc.constantFrom(0, 5),
      }),
      { nil: undefined },
    );
    const rank = fc.record({ held, calls: fc.nat(20) });
    fc.assert(
      fc.property(fc.array(rank, { minLength: 1, maxLength: 8 }), (ranks) => {
        const verdict = vote(ranks.map(({ held: h, calls }) => ({ ...(h && { held: h }), calls })));
        if (verdict.kind === "keep") return;
        for (const { held: h, calls } of ranks) {
          expect(h?.version).toBe(verdict.version);
          expect(h?.checksum).toBe(ranks[0]?.held?.checksum);
          expect(verdict.atCall).toBeGreaterThanOrEqual(calls);
        }
      }),
    );
  });
});
