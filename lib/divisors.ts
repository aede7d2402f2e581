/** @file The divisors of a whole number. Cost: its square root. */

/** From one up. */
export function divisorsOf(count: number): readonly number[] {
  const [small, large]: [number[], number[]] = [[], []];
  for (let by = 1; by * by <= count; by += 1) {
    if (count % by !== 0) continue;
    small.push(by);
    if (by * by < count) large.unshift(count / by);
  }
  return [...small, ...large];
}
