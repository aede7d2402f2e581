/**
 * @file Whether Temporal refused a signal because the run has had all that it takes in its life: 10,000 (`history.maximumSignalsPerExecution`).
 *
 * The server has no code of its own for it, only these words beside `INVALID_ARGUMENT`.
 */

const SIGNALS_ARE_USED_UP = /limit for signal events/;

/** `error`: of a signal's call, as the client of the SDK throws it. */
export function hearsNoSignal(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { cause = error } = error;
  return cause instanceof Error && SIGNALS_ARE_USED_UP.test(cause.message);
}
