/** @file A pause that ends early, without failing, when a signal is aborted. */

export async function abortablePause(forMs: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, forMs);
    signal.addEventListener("abort", done, { once: true });
  });
}
