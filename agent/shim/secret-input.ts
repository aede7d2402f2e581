/**
 * @file The values of secrets on their way from an agent to a supervisor: by its input, so that no file, no argument and no environment of
 * a longer-lived process holds them. Each is `NAME=VALUE` and a NUL byte, in the order of the plan's names; a text that was cut off counts as none.
 */

import type { LaunchPlan, RankPlan } from "../folder/launch-files.ts";
import type { SecretValues } from "../ports/secrets.ts";

export const secretInput = (names: readonly string[], values: SecretValues): string =>
  names.map((name) => `${name}=${values[name] ?? ""}\0`).join("");

/** The plan with the values in the environment of every process. Throws where the input has not come whole. */
export function withSecrets(plan: LaunchPlan, input: () => string): LaunchPlan {
  const { secrets: names = [], ranks, batch } = plan;
  if (names.length === 0) return plan;
  const words = input().split("\0");
  const isWhole =
    words.length === names.length + 1 &&
    words.at(-1) === "" &&
    names.every((name, at) => words[at]?.startsWith(`${name}=`) === true);
  if (!isWhole) throw new Error("the values of the job's secrets have not come");
  const values = Object.fromEntries(
    names.map((name, at) => [name, words[at]?.slice(name.length + 1) ?? ""]),
  );
  const given = ({ rank, env }: RankPlan): RankPlan => ({ rank, env: { ...env, ...values } });
  return {
    ...plan,
    ranks: ranks.map(given),
    ...(batch !== undefined && {
      batch: { ...batch, slots: batch.slots.map((slot) => slot.map(given)) },
    }),
  };
}
