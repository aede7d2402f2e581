/**
 * @file A signal that comes with another one, or after a time, whichever is first.
 *
 * Not `AbortSignal.any` over an `AbortSignal.timeout`: Node holds the timeout by a weak reference only, collects it with the garbage, and
 * what waits for it waits for ever. Here its timer holds it.
 */

/** Keeps no process alive. */
export function withinTime(forMs: number, signal: AbortSignal): AbortSignal {
  const late = new AbortController();
  setTimeout(() => late.abort(), forMs).unref();
  return AbortSignal.any([signal, late.signal]);
}
