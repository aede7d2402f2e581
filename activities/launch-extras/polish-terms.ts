/** @file When the plan of a served model is improved, and for how long. */

/** A model that still runs after so long stays. The limit is that of all MILPs and the search together. */
export const POLISH_TERMS: { readonly afterMs: number; readonly limitMs: number } = Object.freeze({
  afterMs: 30_000,
  limitMs: 60_000,
});
