/**
 * @file How many cases a property draws: a third in the inner loop (`npm run test:unit`), all in `npm test` (`ORBWEAVER_CASES=all`).
 *
 * Seeds are the same in both, so the inner loop draws the first third of the cases of the whole run.
 */

const SHARE = process.env["ORBWEAVER_CASES"] === "all" ? 1 : 1 / 3;

export const caseCount = (all: number): number => Math.ceil(all * SHARE);
