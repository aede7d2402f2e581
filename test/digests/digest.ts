/**
 * @file A short digest of values: two runs have the same one when all their values are equal, in the same order.
 *
 * Names of fields and kinds are no values: a subject writes each value by hand, in an order of its own, so that a renaming changes nothing.
 * Each list is preceded by its length, so that no value can pass from one list to the next. A `count` is written with all its digits,
 * a `figure`, which is predicted or measured, with nine.
 */

import { createHash } from "node:crypto";
import type { HostGpus } from "../../domain/lease/lease.ts";

const DIGEST_LENGTH = 16;
const FIGURE_DIGITS = 9;

export interface Values {
  /** Ids of hosts and jobs, which are drawn or read with the input. */
  readonly id: (value: string | undefined) => void;
  /** Counts, indices, masks and times; an absent one is a value of its own. */
  readonly count: (value: number | undefined) => void;
  readonly figure: (value: number | undefined) => void;
  readonly claim: (isSo: boolean) => void;
  readonly counts: (list: ArrayLike<number> | undefined) => void;
  readonly figures: (list: ArrayLike<number> | undefined) => void;
  readonly gpus: (list: readonly HostGpus[] | undefined) => void;
  /** The length, then `write` of each. */
  readonly list: <Item>(items: readonly Item[], write: (item: Item) => void) => void;
}

/** What a case made of its values; `skipped` says which of its files is not here. */
export type Digested = { readonly digest: string } | { readonly skipped: string };

export interface DigestCase {
  /** With its sizes. */
  readonly name: string;
  /** Checked with every run of the unit tests, the others when all are asked for. */
  readonly isQuick: boolean;
  readonly run: () => Digested | Promise<Digested>;
}

export function openDigest(): { readonly values: Values; readonly done: () => Digested } {
  const hash = createHash("sha256");
  const put = (text: string): void => {
    hash.update(`${text}\n`);
  };
  const count = (value: number | undefined): void => {
    put(value === undefined ? "absent" : String(value));
  };
  const figure = (value: number | undefined): void => {
    count(value === undefined ? undefined : Number(value.toPrecision(FIGURE_DIGITS)));
  };
  const list = <Item>(items: readonly Item[], write: (item: Item) => void): void => {
    count(items.length);
    for (const item of items) write(item);
  };
  const ofNumbers =
    (write: (value: number) => void) =>
    (numbers: ArrayLike<number> | undefined): void => {
      if (numbers === undefined) count(undefined);
      else list(Array.from(numbers), write);
    };
  const values: Values = {
    id: (value) => {
      put(value === undefined ? "absent" : JSON.stringify(value));
    },
    count,
    figure,
    claim: (isSo) => {
      put(isSo ? "yes" : "no");
    },
    counts: ofNumbers(count),
    figures: ofNumbers(figure),
    gpus: (parts) => {
      if (parts === undefined) count(undefined);
      else
        list(parts, ({ host, mask }) => {
          values.id(host);
          count(mask);
        });
    },
    list,
  };
  return { values, done: () => ({ digest: hash.digest("hex").slice(0, DIGEST_LENGTH) }) };
}

export async function digestOf(write: (values: Values) => void | Promise<void>): Promise<Digested> {
  const { values, done } = openDigest();
  await write(values);
  return done();
}
