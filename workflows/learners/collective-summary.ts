/** @file What a tuner shows of itself in Temporal's own UI: a few lines of Markdown, written from its view. */

import type { CollectiveTunerView } from "../../protocol/collective-messages.ts";

export function collectiveSummary({ topology, worlds, heard }: CollectiveTunerView): string {
  const lines = [
    `**Collectives of ${topology.name} in ${topology.cluster}**: ${heard} steps heard of`,
    ...worlds.flatMap(({ hasOverlap, policy }) => [
      "",
      `Version ${policy.version}, ${hasOverlap ? "with" : "without"} overlap${policy.isExploring ? ", exploring" : ""}`,
      ...policy.reasons.map(
        ({ collective, minBytes, arm, why }) =>
          `- ${collective} from ${minBytes} bytes: ${arm}, ${why}`,
      ),
    ]),
  ];
  return lines.join("\n");
}
