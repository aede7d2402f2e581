/** @file The fleet at an instant of its past, asked of the console when the reader moves there; the last answer stays until the next one comes. */

import { useEffect, useState } from "preact/hooks";
import { createStore, type Store } from "./store.ts";
import type { PastAnswer } from "./wire.ts";

export interface ShownPast {
  readonly store: Store;
  readonly answer: PastAnswer;
}

/** The reader drags: only where it rests for so long is asked. */
const REST_MS = 80;

/** Undefined of the present, and until something is known. `at`: as it stands in the address. */
export function usePast(at: string): { readonly shown?: ShownPast; readonly trouble?: string } {
  const [shown, setShown] = useState<ShownPast>();
  const [trouble, setTrouble] = useState<string>();
  useEffect(() => {
    setTrouble(undefined);
    if (at === "") return setShown(undefined);
    const call = new AbortController();
    const rest = setTimeout(() => {
      ask(at, call.signal)
        .then(setShown)
        .catch((error: unknown) => {
          if (!call.signal.aborted) setTrouble(String(error));
        });
    }, REST_MS);
    return () => {
      clearTimeout(rest);
      call.abort();
    };
  }, [at]);
  if (at === "") return {};
  return { ...(shown && { shown }), ...(trouble !== undefined && { trouble }) };
}

async function ask(at: string, signal: AbortSignal): Promise<ShownPast> {
  const response = await fetch(`/api/past?at=${encodeURIComponent(at)}`, { signal });
  if (!response.ok) throw new Error(await response.text());
  const answer = (await response.json()) as PastAnswer;
  const store = createStore(Number(at));
  store.take(answer.message);
  return { store, answer };
}
