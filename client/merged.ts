/** @file Merges several streams in order of arrival; the first failure ends all of them. */

/** Yields items in the order of their arrival; ends when every source has ended. */
export async function* merged<T>(sources: readonly AsyncIterable<T>[]): AsyncGenerator<T> {
  const iterators = sources.map((source) => source[Symbol.asyncIterator]());
  const next = (index: number): Promise<Arrival<T>> | undefined =>
    iterators[index]?.next().then((result) => ({ index, result }));
  const waiting = new Map<number, Promise<Arrival<T>>>();
  const wait = (index: number): void => {
    const arrival = next(index);
    if (arrival !== undefined) waiting.set(index, arrival);
  };
  iterators.forEach((_, index) => {
    wait(index);
  });
  try {
    while (waiting.size > 0) {
      const { index, result } = await Promise.race(waiting.values());
      waiting.delete(index);
      if (result.done === true) continue;
      yield result.value;
      wait(index);
    }
  } finally {
    // A source in a long read ends when that read ends; the merged stream does not wait for it.
    for (const [index, arrival] of waiting) {
      arrival.catch(() => undefined);
      void iterators[index]?.return?.()?.catch(() => undefined);
    }
  }
}

interface Arrival<T> {
  readonly index: number;
  readonly result: IteratorResult<T>;
}
