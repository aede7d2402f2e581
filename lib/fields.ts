/** @file Values of which nobody knows yet what they are, as objects with named fields. */

export type Fields = Readonly<Record<string, unknown>>;

/** An array has none. */
export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
