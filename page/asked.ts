/** @file What the page asks the console for, and sends it. */

import { useEffect, useState } from "preact/hooks";
import type { Order } from "./wire.ts";

/** The answer to a GET, asked again when the path or `again` changes; the last one stays until the next. */
export function useAnswer<Answer>(path: string, again: number | string): Answer | undefined {
  const [known, setKnown] = useState<{ readonly path: string; readonly answer: Answer }>();
  useEffect(() => {
    const call = new AbortController();
    fetch(path, { signal: call.signal })
      .then(async (response) => {
        if (response.ok) setKnown({ path, answer: (await response.json()) as Answer });
      })
      // The stream says that the console does not answer.
      .catch(() => undefined);
    return () => call.abort();
  }, [path, again]);
  return known?.path === path ? known.answer : undefined;
}

/** Changes every so many milliseconds, for what has no event of its own. */
export function useTicks(everyMs: number): number {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTick((former) => former + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return tick;
}

/** Throws with the console's words where it refuses. */
export async function send(path: string, body: object): Promise<unknown> {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as unknown;
}

export const giveOrder = async (order: Order): Promise<string> =>
  ((await send("/api/orders", order)) as { readonly said: string }).said;
