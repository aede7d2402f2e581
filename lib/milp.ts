/**
 * @file A mixed-integer linear problem, the port of its solvers, and the check that every answer passes.
 *
 * Solvers answer within tolerances of their own, and one of them returns fractions marked as feasible when its time is up; so an
 * answer counts when its values, integers rounded, satisfy every bound and row here. Cost of a check: one pass over the terms.
 */

export interface MilpVariable {
  readonly name: string;
  readonly lower: number;
  readonly upper: number;
  readonly isInteger: boolean;
  readonly cost: number;
}

export interface MilpTerm {
  /** Index into the problem's variables. */
  readonly variable: number;
  readonly coefficient: number;
}

/** `lower ≤ Σ coefficient × variable ≤ upper`; either side may be infinite. */
export interface MilpRow {
  readonly name: string;
  readonly terms: readonly MilpTerm[];
  readonly lower: number;
  readonly upper: number;
}

export interface MilpProblem {
  readonly name: string;
  readonly sense: "minimise" | "maximise";
  readonly variables: readonly MilpVariable[];
  readonly rows: readonly MilpRow[];
}

export interface MilpLimits {
  readonly timeLimitMs: number;
  /** Stop when the answer is within this share of the bound; 0 when absent. */
  readonly relativeGap?: number;
  /** Values to begin with, one for each variable; ignored where they do not satisfy the problem. */
  readonly start?: readonly number[];
}

export type MilpAnswer =
  | {
      /** `feasible`: it satisfies the problem, nothing is proven about a better one. */
      readonly status: "optimal" | "feasible";
      readonly values: readonly number[];
      readonly objective: number;
      /** No solution is better than this. */
      readonly bound?: number;
      /** |objective − bound| / |objective|. */
      readonly gap?: number;
    }
  | { readonly status: "infeasible" | "unbounded" | "no-answer"; readonly reason: string };

export interface MilpSolver {
  readonly name: string;
  solve(problem: MilpProblem, limits: MilpLimits): Promise<MilpAnswer>;
}

/** How far a row or bound may be missed, as a share of the largest of 1 and its numbers. */
const MILP_EPSILON = 1e-6;

/** First violated row, bound or integrality; undefined when the values satisfy the problem within epsilon. */
export function checkAnswer(
  problem: MilpProblem,
  values: readonly number[],
  epsilon = MILP_EPSILON,
): string | undefined {
  if (values.length !== problem.variables.length)
    return `${values.length} values for ${problem.variables.length} variables`;
  for (const [at, { name, lower, upper, isInteger }] of problem.variables.entries()) {
    const value = values[at] ?? NaN;
    if (!Number.isFinite(value)) return `${name} is ${value}`;
    if (isInteger && Math.abs(value - Math.round(value)) > epsilon)
      return `${name} is ${value}, not whole`;
    if (isMissed(value, { lower, upper }, epsilon)) return rangeText(name, value, { lower, upper });
  }
  for (const { name, terms, lower, upper } of problem.rows) {
    let sum = 0;
    for (const { variable, coefficient } of terms) sum += coefficient * (values[variable] ?? NaN);
    if (isMissed(sum, { lower, upper }, epsilon)) return rangeText(name, sum, { lower, upper });
  }
  return undefined;
}

/** Σ cost × value. */
export function objectiveOf(problem: MilpProblem, values: readonly number[]): number {
  let sum = 0;
  for (const [at, { cost }] of problem.variables.entries()) sum += cost * (values[at] ?? NaN);
  return sum;
}

/** Integer variables at the nearest whole number, the others as they are. */
export const roundedValues = (problem: MilpProblem, values: readonly number[]): number[] =>
  // Adding 0 turns −0 into 0.
  values.map((value, at) =>
    problem.variables[at]?.isInteger === true ? Math.round(value) + 0 : value,
  );

/** The same terms with each variable once, in order of the variables, none of them 0. */
export function mergedTerms(terms: readonly MilpTerm[]): readonly MilpTerm[] {
  const sums = new Map<number, number>();
  for (const { variable, coefficient } of terms)
    sums.set(variable, (sums.get(variable) ?? 0) + coefficient);
  return [...sums]
    .filter(([, coefficient]) => coefficient !== 0)
    .sort(([a], [b]) => a - b)
    .map(([variable, coefficient]) => ({ variable, coefficient }));
}

/** What is wrong with a problem that no solver should be asked; undefined when it is well formed. */
export function checkProblem(problem: MilpProblem): string | undefined {
  for (const { name, lower, upper, cost } of problem.variables) {
    if (Number.isNaN(lower) || Number.isNaN(upper) || !Number.isFinite(cost))
      return `${name} has lower ${lower}, upper ${upper}, cost ${cost}`;
  }
  for (const { name, terms, lower, upper } of problem.rows) {
    if (Number.isNaN(lower) || Number.isNaN(upper))
      return `${name} lies between ${lower} and ${upper}`;
    for (const { variable, coefficient } of terms) {
      if (problem.variables[variable] === undefined || !Number.isFinite(coefficient))
        return `${name} has ${coefficient} × variable ${variable} of ${problem.variables.length}`;
    }
  }
  return undefined;
}

interface Range {
  readonly lower: number;
  readonly upper: number;
}

function isMissed(value: number, { lower, upper }: Range, epsilon: number): boolean {
  const below = Number.isFinite(lower) ? epsilon * Math.max(1, Math.abs(lower)) : 0;
  const above = Number.isFinite(upper) ? epsilon * Math.max(1, Math.abs(upper)) : 0;
  return !(value >= lower - below && value <= upper + above);
}

const rangeText = (name: string, value: number, { lower, upper }: Range): string =>
  `${name} is ${value}, outside ${lower} … ${upper}`;
