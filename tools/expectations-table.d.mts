export interface NamedTest {
  /** Below the repository's root; one that ends with `/` is a folder. */
  readonly file: string;
  /** Words of its title, with "…" for any others; absent: all tests of the file. */
  readonly title?: string;
}
export interface Clause {
  readonly name: string;
  readonly field: string;
  /** None where the clause is missing. */
  readonly tests: readonly NamedTest[];
}
export interface Expectation {
  readonly number: number;
  readonly title: string;
  readonly verdict: string;
  readonly clauses: readonly Clause[];
}
export function readExpectations(text: string): readonly Expectation[];
/** The text of a regular expression. */
export function titlePattern(title: string): string;
/** Whether tests of that file run on a live fleet, or in a browser. */
export function hasFleet(test: NamedTest): boolean;
