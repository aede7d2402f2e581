/**
 * @file Predicts a quantity from few noisy observations by a Gaussian process: the mean of what a kernel says is alike (kriging).
 *
 * The observations' covariance is factorised once (Cholesky). Cost: O(n³) to fit, O(n) kernel calls a prediction.
 */

interface Observation<Point> {
  readonly point: Point;
  /** Deviation from the mean that is believed before anything was observed. */
  readonly value: number;
}

interface KrigingSettings<Point> {
  /** Covariance of two points; positive semidefinite. */
  readonly kernel: (a: Point, b: Point) => number;
  /** Variance of one observation, above 0. */
  readonly noise: number;
}

/** The expected deviation at a point; 0 without observations. */
export function kriging<Point>(
  observations: readonly Observation<Point>[],
  { kernel, noise }: KrigingSettings<Point>,
): (point: Point) => number {
  const points = observations.map(({ point }) => point);
  const matrix = points.map((a, row) =>
    points.map((b, column) => kernel(a, b) + (row === column ? noise : 0)),
  );
  const weights = solved(
    matrix,
    observations.map(({ value }) => value),
  );
  return (point) =>
    points.reduce((sum, other, at) => sum + (weights[at] ?? 0) * kernel(point, other), 0);
}

/** x with `matrix` · x = `right`, for a symmetric positive definite matrix. */
function solved(matrix: readonly (readonly number[])[], right: readonly number[]): number[] {
  const lower = factorised(matrix);
  const forward: number[] = [];
  for (const [row, value] of right.entries()) {
    const known = forward.reduce((sum, x, at) => sum + (lower[row]?.[at] ?? 0) * x, 0);
    forward.push((value - known) / (lower[row]?.[row] ?? 1));
  }
  const x = forward.map(() => 0);
  for (let row = x.length - 1; row >= 0; row -= 1) {
    let rest = forward[row] ?? 0;
    for (let below = row + 1; below < x.length; below += 1)
      rest -= (lower[below]?.[row] ?? 0) * (x[below] ?? 0);
    x[row] = rest / (lower[row]?.[row] ?? 1);
  }
  return x;
}

/** The lower triangle L with L · Lᵀ = `matrix`. */
function factorised(matrix: readonly (readonly number[])[]): readonly (readonly number[])[] {
  const lower: number[][] = [];
  for (const [row, values] of matrix.entries()) {
    const own: number[] = [];
    for (let column = 0; column <= row; column += 1) {
      let rest = values[column] ?? 0;
      for (let at = 0; at < column; at += 1)
        rest -= (own[at] ?? 0) * (column === row ? (own[at] ?? 0) : (lower[column]?.[at] ?? 0));
      if (column < row) own.push(rest / (lower[column]?.[column] ?? 1));
      // Rounding can leave no more than 0 where two points are one.
      else own.push(Math.sqrt(Math.max(rest, Number.EPSILON)));
    }
    lower.push(own);
  }
  return lower;
}
