/** @file What can be chosen of `bench traces`, by name; loaded with the command, so it imports nothing. */

export const TRACE_NAMES = ["philly", "helios", "pai", "chronus", "sia", "gavel"] as const;
export const FLEET_SIZES = ["64", "256", "512"] as const;
export const LOADS = ["0.7", "0.9", "1.1"] as const;
export const WINDOWS = ["1", "2", "3"] as const;

/** Ours first; then the rivals, bare and inside the tenants' weights. */
export const POLICY_NAMES = [
  "tawfq",
  "fifo",
  "fifo-backfill",
  "easy",
  "conservative",
  "drf",
  "bin-packing",
  "las",
  "qssf",
  "srsf",
  "sjf",
  "fifo-weights",
  "easy-weights",
  "conservative-weights",
  "bin-packing-weights",
  "las-weights",
  "qssf-weights",
  "srsf-weights",
  "sjf-weights",
] as const;
export type PolicyName = (typeof POLICY_NAMES)[number];
