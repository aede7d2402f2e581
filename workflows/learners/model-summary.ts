/** @file What a bandwidth model shows of itself in Temporal's own UI: a few lines of Markdown, written from its view. */

import type { BandwidthModelView } from "../../protocol/model-messages.ts";

export function modelSummary(view: BandwidthModelView): string {
  const { cluster, serving, busy, samples, fresh, drift, outliers, lastTraining, isHeld } = view;
  const serves = serving === undefined ? "no version serves yet" : `${serving.version} serves`;
  const lines = [
    `**Bandwidth of ${cluster}**: ${serves}${busy === undefined ? "" : ` · ${busy}`}`,
    "",
    `${samples} measurements kept, ${fresh} of them since the last training`,
  ];
  if (isHeld)
    lines.push(
      "",
      "Rolled back by hand: nothing is trained until `orbweaver model train` asks for it",
    );
  if (drift !== undefined) {
    const where = drift.host ?? "the whole cluster";
    lines.push(
      "",
      `Drift: ${where} measures ${(100 * drift.ratio).toFixed(0)} % of what is expected, over ${drift.samples} measurements`,
    );
  }
  if (outliers.length > 0)
    lines.push("", `${outliers.length} measurements that nothing confirms are left out`);
  if (lastTraining !== undefined) {
    const { kind, version, reason } = lastTraining;
    lines.push(
      "",
      `Last training: ${kind}${version === undefined ? "" : ` (${version})`}, ${reason}`,
    );
  }
  return lines.join("\n");
}
