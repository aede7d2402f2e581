/** @file Waiting until Ctrl-C, and a stream that ends at it, even in the middle of a long wait, and lets its source clean up. */

export async function* untilInterrupted<T>(
  source: AsyncIterable<T>,
  interrupted: AbortSignal,
): AsyncGenerator<T> {
  const iterator = source[Symbol.asyncIterator]();
  const end = new Promise<"interrupted">((resolve) => {
    if (interrupted.aborted) resolve("interrupted");
    interrupted.addEventListener("abort", () => {
      resolve("interrupted");
    });
  });
  for (;;) {
    const next = iterator.next();
    const arrived = await Promise.race([next, end]);
    if (arrived === "interrupted") {
      next.catch(() => undefined);
      // The source ends when its present wait ends; the command does not wait for that.
      void iterator.return?.()?.catch(() => undefined);
      return;
    }
    if (arrived.done === true) return;
    yield arrived.value;
  }
}

/** Resolves at Ctrl-C. */
export async function aborted(signal: AbortSignal): Promise<void> {
  await new Promise<void>((end) => {
    if (signal.aborted) end();
    signal.addEventListener("abort", () => {
      end();
    });
  });
}
