/** @file The end of a name that nobody has chosen. */

import { randomInt } from "node:crypto";

/** Six characters of base 36: two billion names; the server refuses a name that is taken. */
export const randomSuffix = (): string => randomInt(36 ** 5, 36 ** 6).toString(36);
