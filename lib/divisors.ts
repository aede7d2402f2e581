/** @file The divisors of a whole number. Cost: its square root, at most `TRIED`. */

/** Complete up to its square; of a larger number the divisors between this and its quotient may be missing. */
const TRIED = 65_536;

/** From one up to `most`. */
export function divisorsOf(count: number, most = count): readonly number[] {
  const [small, large]: [number[], number[]] = [[], []];
  const last = most < 2 ? most : TRIED;
  for (let by = 1; by * by <= count && by <= last; by += 1) {
    if (count % by !== 0) continue;
    if (by <= most) small.push(by);
    if (by * by < count && count / by <= most) large.push(count / by);
  }
  return [...small, ...large.reverse()];
}
