/** @file What stands for a value that cannot be read. Pure. */

import { isFields } from "../lib/fields.ts";

export const UNREADABLE = Object.freeze({ kind: "unreadable" });

export const isUnreadable = (value: unknown): boolean =>
  isFields(value) && value["kind"] === UNREADABLE.kind;
