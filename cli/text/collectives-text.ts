/** @file The output of `orbweaver collectives show` and `explain`: tables of tuners, and of one tuner's choices. */

import { placeOf } from "../../client/collectives.ts";
import type { PublishedPolicy, RowReason } from "../../domain/bandwidth/collective-evidence.ts";
import type { CollectiveTunerView } from "../../protocol/messages.ts";
import { counted } from "../terminal/duration.ts";
import { tableText, type Column } from "../terminal/table.ts";

const LIST_COLUMNS: readonly Column[] = [
  { title: "PLACE", least: 16 },
  { title: "OVERLAP" },
  { title: "VERSION", isRight: true },
  { title: "STATE" },
  { title: "CHOSEN", least: 10 },
];

const NONE =
  "nothing was tuned yet: submit a job with `collectives: {tune: true}` that spans several GPUs";

export function listText(tuners: readonly CollectiveTunerView[], width: number): string {
  const rows = tuners.flatMap((tuner) =>
    tuner.worlds.map(({ hasOverlap, policy }) => [
      placeOf(tuner),
      hasOverlap ? "yes" : "no",
      String(policy.version),
      policy.isExploring ? "exploring" : "settled",
      chosenText(policy),
    ]),
  );
  return rows.length === 0 ? NONE : tableText(LIST_COLUMNS, rows, width);
}

/** `auto` is NCCL's own choice. */
function chosenText({ reasons }: PublishedPolicy): string {
  const chosen = reasons.filter(({ arm }) => arm !== "auto");
  if (chosen.length === 0) return "NCCL's own";
  return chosen
    .map(({ collective, minBytes, arm }) => `${collective} ${bytesText(minBytes)}: ${arm}`)
    .join(", ");
}

const ROW_COLUMNS: readonly Column[] = [
  { title: "COLLECTIVE" },
  { title: "FROM", isRight: true },
  { title: "CHOICE" },
  { title: "WHY", least: 20 },
];

const ARM_COLUMNS: readonly Column[] = [
  { title: "COLLECTIVE" },
  { title: "FROM", isRight: true },
  { title: "TRIED", least: 12 },
  { title: "STEPS", isRight: true },
  { title: "STEP TIME", isRight: true },
  { title: "COLLECTIVES", isRight: true },
];

export function explanationText(view: CollectiveTunerView, width: number): string {
  const { worlds, topology, heard, repeated, unfit } = view;
  const head = [
    `${placeOf(view)}: ${counted(topology.nodes, "host")}, ${counted(topology.ranks, "GPU")}`,
    `${counted(heard, "step")} heard of, ${String(repeated)} repeated, ${String(unfit)} unfit`,
  ];
  const bodies = worlds.flatMap(({ hasOverlap, policy }) => {
    const rows = policy.reasons.map(({ collective, minBytes, arm, why }) => [
      collective,
      bytesText(minBytes),
      arm,
      why,
    ]);
    const tried = policy.reasons.flatMap(triedRows);
    return [
      "",
      `Jobs ${hasOverlap ? "that compute while they communicate" : "that do not compute meanwhile"}, version ${String(policy.version)}:`,
      tableText(ROW_COLUMNS, rows, width),
      ...(tried.length > 0 ? ["", tableText(ARM_COLUMNS, tried, width)] : []),
    ];
  });
  return [...head, ...bodies].join("\n");
}

const triedRows = ({ collective, minBytes, arms }: RowReason): readonly (readonly string[])[] =>
  arms
    .filter(({ samples }) => samples > 0)
    .map(({ arm, samples, typicalMicros, slowestMicros }) => [
      collective,
      bytesText(minBytes),
      arm,
      String(samples),
      millisText(typicalMicros),
      slowestMicros === undefined ? "-" : millisText(slowestMicros),
    ]);

const millisText = (micros: number): string => `${(micros / 1000).toFixed(1)} ms`;

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

function bytesText(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= 1024 && value % 1024 === 0 && unit < UNITS.length - 1)
    [value, unit] = [value / 1024, unit + 1];
  return `${String(value)} ${UNITS[unit] ?? ""}`;
}
