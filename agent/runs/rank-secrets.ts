/**
 * @file The secrets of a running process, for what is started beside it: a checkpoint command, a session.
 *
 * The launch's plan has only their names; the kernel keeps the environment that the process was started with. A process that has overwritten
 * it has none.
 */

import type { LaunchPlan } from "../folder/launch-files.ts";
import type { SecretValues } from "../ports/secrets.ts";
import { isAliveIn, type ProcessIdentity, type Processes } from "../ports/processes.ts";

export function secretsOf(
  processes: Processes,
  { secrets: names = [] }: Pick<LaunchPlan, "secrets">,
  rank: ProcessIdentity | undefined,
): SecretValues {
  if (names.length === 0 || rank === undefined || !isAliveIn(processes, rank)) return {};
  const words = processes.single?.environment(rank.pid)?.toString("utf8").split("\0") ?? [];
  const found = names.flatMap((name) => {
    const word = words.find((each) => each.startsWith(`${name}=`));
    return word === undefined ? [] : [[name, word.slice(name.length + 1)] as const];
  });
  return Object.fromEntries(found);
}
