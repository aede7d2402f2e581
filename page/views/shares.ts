/** @file What tenants held and were due over time: a small chart for each of those that hold or are due most. */

import { h, type ComponentChildren } from "preact";
import { useAnswer, useTicks } from "../asked.ts";
import { tenths, timeText } from "../text.ts";
import type { ShareSample, SharesPast, TenantShare } from "../wire.ts";

const LOOK_EVERY_MS = 5_000;
const MOST_TENANTS = 12;
const [WIDTH, HEIGHT] = [300, 56];
const NOTHING: TenantShare = [0, 0, 0];

export function SharesOverTime(): ComponentChildren {
  const tick = useTicks(LOOK_EVERY_MS);
  const past = useAnswer<SharesPast>("/api/shares", tick);
  const samples = past?.samples ?? [];
  const [first] = samples;
  const last = samples.at(-1);
  if (first === undefined || last === undefined || samples.length < 2) return null;
  const tenants = largest(samples).slice(0, MOST_TENANTS);
  return h(
    "div",
    { class: "shares" },
    h("h2", null, "Over time"),
    h(
      "p",
      { class: "quiet" },
      `From ${timeText(first.atMs)} to ${timeText(last.atMs)}: GPUs held (filled) against due (line).`,
    ),
    h(
      "div",
      { class: "charts" },
      tenants.map((tenant) => h(Chart, { key: tenant, tenant, samples })),
    ),
  );
}

function largest(samples: readonly ShareSample[]): readonly string[] {
  const most = new Map<string, number>();
  for (const { tenants } of samples)
    for (const [tenant, [held, due]] of Object.entries(tenants))
      most.set(tenant, Math.max(most.get(tenant) ?? 0, held, due));
  return [...most]
    .sort(([one, a], [other, b]) => b - a || (one < other ? -1 : 1))
    .map(([tenant]) => tenant);
}

function Chart({
  tenant,
  samples,
}: {
  readonly tenant: string;
  readonly samples: readonly ShareSample[];
}): ComponentChildren {
  const points = samples.map(({ atMs, tenants }) => {
    const [held, due] = tenants[tenant] ?? NOTHING;
    return { atMs, held, due };
  });
  const most = Math.max(1, ...points.map(({ held, due }) => Math.max(held, due)));
  const fromMs = points[0]?.atMs ?? 0;
  const spanMs = Math.max(1, (points.at(-1)?.atMs ?? 0) - fromMs);
  const x = (atMs: number): string => (((atMs - fromMs) / spanMs) * WIDTH).toFixed(1);
  const y = (gpus: number): string => (HEIGHT - 2 - (gpus / most) * (HEIGHT - 6)).toFixed(1);
  // Held until the next sample: a step, not a slope.
  const steps = points
    .map(({ atMs, held }, at) => `${at === 0 ? "" : `H${x(atMs)}`}V${y(held)}`)
    .join("");
  const due = points.map(
    ({ atMs, due: gpus }, at) => `${at === 0 ? "M" : "L"}${x(atMs)} ${y(gpus)}`,
  );
  const now = points.at(-1);
  const told = now && `holds ${now.held.toLocaleString("en")}, due ${tenths(now.due)}`;
  return h(
    "figure",
    null,
    h("figcaption", null, h("b", null, tenant), ` ${told ?? ""}`),
    h(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        role: "img",
        "aria-label": `${tenant} over time: at most ${most.toLocaleString("en")} GPUs; now ${told ?? ""}`,
      },
      h("path", { class: "held", d: `M0 ${HEIGHT - 2}${steps}V${HEIGHT - 2}z` }),
      h("path", { class: "due-line", d: due.join("") }),
    ),
  );
}
