/** @file What the hosts of a fleet keep in memory of models that were served there. */

import type { FleetTrust } from "../../client/agent-trust.ts";
import { counted } from "../terminal/duration.ts";

/** Nothing where no host keeps any. */
export const weightsLines = ({ weights = [] }: Pick<FleetTrust, "weights">): readonly string[] =>
  weights.map(
    ({ host, models, bytes, budgetBytes }) =>
      `${host}: ${counted(models, "model")}, ${mebibytes(bytes)} of ${mebibytes(budgetBytes)} MiB`,
  );

const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
