/** @file A stream that ends at Ctrl-C, even in the middle of a long wait, and lets its source clean up. */

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
      // The source ends when its present wait does; the command does not stay for that.
      void iterator.return?.()?.catch(() => undefined);
      return;
    }
    if (arrived.done === true) return;
    yield arrived.value;
  }
}
