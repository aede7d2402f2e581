/** @file The line of `status` about hosts whose NCCL has not loaded the collectives plugin, or only half of it: their job cannot gain, or gains less. */

import type { JobView, RunProgress } from "../../client/index.ts";
import type { NcclPlugins } from "../../domain/bandwidth/collective-evidence.ts";

/** Undefined where all that is known has both. Of a run that has ended its hosts' last words count. */
export function ncclText(
  { attempts }: Pick<JobView, "attempts">,
  live: readonly Pick<RunProgress, "host" | "ncclPlugins">[],
): string | undefined {
  const ended = attempts.at(-1)?.ncclPlugins ?? [];
  const known = [
    ...ended,
    ...live.map(({ host = "a host", ncclPlugins: plugins = "both" }) => ({ host, plugins })),
  ];
  const hostsWith = (which: NcclPlugins): readonly string[] =>
    known.flatMap(({ host, plugins }) => (plugins === which ? [host] : [])).sort();
  const [untuned, untimed] = [hostsWith("none"), hostsWith("tuner")];
  const parts = [
    ...(untuned.length === 0
      ? []
      : [
          `loads no tuner on ${untuned.join(", ")}, so it keeps its own choices there: 2.21 or later does, and all hosts need the same`,
        ]),
    ...(untimed.length === 0
      ? []
      : [
          `loads no profiler on ${untimed.join(", ")}, so whole steps decide: 2.27 or later times collectives`,
        ]),
  ];
  return parts.length === 0 ? undefined : parts.join("; ");
}
