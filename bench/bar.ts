/**
 * @file A bar: one figure of a bench, its target, and whether the figure meets it.
 *
 * A figure that was not measured does not hold: an absent answer must never look like a good one. A bar without a target
 * (`reported`) holds as soon as there is a figure.
 */

export interface Bar {
  readonly id: string;
  /** `×` for ratios. */
  readonly unit: string;
  /** The same figure as a paper or a rival has it. */
  readonly paper?: number;
  /** `<= 3`, `>= 64`, `= 0` or `reported`. */
  readonly want: string;
  /** Null when it could not be measured; `note` says why. */
  readonly got: number | null;
  readonly holds: boolean;
  /** What a reader must know to interpret the figure. */
  readonly note?: string;
}

export type Target =
  | { readonly kind: "at most"; readonly value: number }
  | { readonly kind: "at least"; readonly value: number }
  | { readonly kind: "exactly"; readonly value: number }
  | { readonly kind: "reported" };

export const atMost = (value: number): Target => ({ kind: "at most", value });
export const atLeast = (value: number): Target => ({ kind: "at least", value });
export const exactly = (value: number): Target => ({ kind: "exactly", value });
export const REPORTED: Target = Object.freeze({ kind: "reported" });

export interface Figure {
  readonly id: string;
  readonly unit: string;
  readonly target: Target;
  readonly got: number | undefined;
  readonly paper?: number;
  readonly note?: string;
}

export function barOf({ id, unit, target, got, paper, note }: Figure): Bar {
  const isMeasured = got !== undefined && Number.isFinite(got);
  return {
    id,
    unit,
    ...(paper !== undefined && { paper }),
    want: targetText(target),
    got: isMeasured ? got : null,
    holds: isMeasured && isGranted(target, got),
    ...(note !== undefined && { note }),
  };
}

/** A bar that could not be measured, with the reason. */
export const unmeasured = (figure: Omit<Figure, "got">, why: string): Bar =>
  barOf({ ...figure, got: undefined, note: `not measured: ${why}` });

function isGranted(target: Target, got: number): boolean {
  switch (target.kind) {
    case "at most":
      return got <= target.value;
    case "at least":
      return got >= target.value;
    case "exactly":
      return got === target.value;
    case "reported":
      return true;
  }
}

function targetText(target: Target): string {
  switch (target.kind) {
    case "at most":
      return `<= ${String(target.value)}`;
    case "at least":
      return `>= ${String(target.value)}`;
    case "exactly":
      return `= ${String(target.value)}`;
    case "reported":
      return "reported";
  }
}
