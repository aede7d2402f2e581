/** @file Requests of a service in bursts: quiet times with a mean of 270 s, bursts with a mean of 30 s at three times the rate, both at random. */

import { randomFrom } from "../../lib/random.ts";

export const BURSTS = Object.freeze({ quietS: 270, burstS: 30, factor: 3 });

/** Their times in milliseconds. `ratePerS`: the mean over quiet times and bursts. */
export function bursts(
  ratePerS: number,
  { seconds, seed }: { readonly seconds: number; readonly seed: number },
): readonly number[] {
  const { quietS, burstS, factor } = BURSTS;
  const quietRate = (ratePerS * (quietS + burstS)) / (quietS + factor * burstS);
  const phases = randomFrom(seed, "phases");
  const random = randomFrom(seed, "arrivals");
  const arrivalsMs: number[] = [];
  let isBurst = phases.unit() < burstS / (quietS + burstS);
  for (let at = 0; at < 1_000 * seconds;) {
    const rate = isBurst ? factor * quietRate : quietRate;
    const end = at + 1_000 * phases.exponential(isBurst ? burstS : quietS);
    for (let next = at; ;) {
      next += random.exponential(1_000 / rate);
      if (next >= Math.min(end, 1_000 * seconds)) break;
      arrivalsMs.push(next);
    }
    at = end;
    isBurst = !isBurst;
  }
  return arrivalsMs;
}
