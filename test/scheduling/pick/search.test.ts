/** @file The contest of candidates: each is predicted once, the best is kept, and ties do not depend on the order. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { byTies, keyOf, openContest, workOf } from "../../../scheduling/pick/search.ts";
import { allPicks, worlds } from "./worlds.ts";
import { caseCount } from "../../support/case-count.ts";

test("any order of candidates has the same leader, and each candidate is predicted once", () => {
  fc.assert(
    fc.property(worlds(), fc.nat(), (world, turn) => {
      const picks = allPicks(world);
      fc.pre(picks.length > 0);
      let predicted = 0;
      const predictor = {
        ...world.predictor,
        predict: (candidates: typeof picks) => {
          predicted += candidates.length;
          return world.predictor.predict(candidates);
        },
      };
      const forwards = openContest({ ...world, predictor });
      forwards.enter(picks);
      forwards.enter(picks);
      expect(predicted).toBe(picks.length);
      const backwards = openContest(world);
      const at = turn % picks.length;
      for (const pick of [...picks.slice(at), ...picks.slice(0, at)].reverse())
        backwards.enter([pick]);
      expect(backwards.leader()).toEqual(forwards.leader());
      expect(forwards.result(true)?.stats).toMatchObject({
        candidates: picks.length,
        isExact: true,
      });
      const best = Math.max(...world.predictor.predict(picks));
      expect(forwards.leader()?.predictedGbs).toBe(best);
      expect(forwards.scoreOf(picks[0] ?? [])).toBe(world.predictor.predict(picks.slice(0, 1))[0]);
    }),
    { numRuns: caseCount(100) },
  );
});

test("ties: fewer large whole hosts broken, then fewer hosts, then lower hosts and masks", () => {
  const ground = { wholes: [true, true, false, false], sizes: [8, 4, 8, 8] };
  const share = (host: number, mask: number) => ({ host, mask });
  const inOrder = [
    [share(2, 3)],
    [share(2, 5)],
    [share(3, 3)],
    [share(2, 1), share(3, 1)],
    [share(1, 3)],
    [share(1, 1), share(2, 1)],
    [share(0, 3)],
    [share(0, 1), share(1, 1)],
  ];
  const sorted = [...inOrder].reverse().sort((a, b) => byTies(a, b, ground));
  expect(sorted.map(keyOf)).toEqual(inOrder.map(keyOf));
});

test("a number that is none is a bug of the model, and work grows faster than shares", () => {
  const world = fc.sample(worlds(), { numRuns: caseCount(1), seed: 1 })[0];
  if (world === undefined) throw new Error("no world");
  const predictor = { ...world.predictor, predict: () => [NaN] };
  const contest = openContest({ ...world, predictor });
  expect(() => contest.enter([[{ host: 0, mask: 1 }]])).toThrow(/no number/);
  expect(workOf(200)).toBeGreaterThan(2 * workOf(100));
});
