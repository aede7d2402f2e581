/**
 * @file A bar: one figure of a bench, what it should be, and whether it is.
 *
 * A figure that was not measured does not hold: an absent answer must never look like a good one. A bar without a wish
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
  /** What a reader must know to read the figure rightly. */
  readonly note?: string;
}

export type Wish =
  | { readonly kind: "at most"; readonly value: number }
  | { readonly kind: "at least"; readonly value: number }
  | { readonly kind: "exactly"; readonly value: number }
  | { readonly kind: "reported" };

export const atMost = (value: number): Wish => ({ kind: "at most", value });
export const atLeast = (value: number): Wish => ({ kind: "at least", value });
export const exactly = (value: number): Wish => ({ kind: "exactly", value });
export const REPORTED: Wish = Object.freeze({ kind: "reported" });

export interface Figure {
  readonly id: string;
  readonly unit: string;
  readonly wish: Wish;
  readonly got: number | undefined;
  readonly paper?: number;
  readonly note?: string;
}

export function barOf({ id, unit, wish, got, paper, note }: Figure): Bar {
  const isMeasured = got !== undefined && Number.isFinite(got);
  return {
    id,
    unit,
    ...(paper !== undefined && { paper }),
    want: wishText(wish),
    got: isMeasured ? got : null,
    holds: isMeasured && isGranted(wish, got),
    ...(note !== undefined && { note }),
  };
}

/** A bar that could not be measured, with the reason. */
export const unmeasured = (figure: Omit<Figure, "got">, why: string): Bar =>
  barOf({ ...figure, got: undefined, note: `not measured: ${why}` });

function isGranted(wish: Wish, got: number): boolean {
  switch (wish.kind) {
    case "at most":
      return got <= wish.value;
    case "at least":
      return got >= wish.value;
    case "exactly":
      return got === wish.value;
    case "reported":
      return true;
  }
}

function wishText(wish: Wish): string {
  switch (wish.kind) {
    case "at most":
      return `<= ${String(wish.value)}`;
    case "at least":
      return `>= ${String(wish.value)}`;
    case "exactly":
      return `= ${String(wish.value)}`;
    case "reported":
      return "reported";
  }
}
