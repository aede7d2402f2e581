/** @file What a person reads about a job that waits outside its fleet, and about how many wait there. */

import type { JobView, LobbyPlace } from "../../client/index.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import type { WaitingByClass } from "../../domain/lease/lobby.ts";
import { counted, durationText } from "../terminal/duration.ts";

/** Facts beside the reason `QueueFull`. */
export function lobbyFacts(
  { spec, submittedAtMs }: JobView,
  { lobby, nowMs }: { readonly lobby: LobbyPlace | undefined; readonly nowMs: number },
): readonly (readonly [string, string])[] {
  const whose = spec === undefined ? "" : ` ${spec.class} jobs of ${spec.tenant}`;
  return [
    ["place", lobby === undefined ? "not listed outside yet" : placeText(lobby, whose)],
    ["waits for", durationText(nowMs - submittedAtMs)],
    ["starts", "not estimated: forecasts see the jobs inside the fleet alone"],
    ["would help", "a higher priority among the tenant's own jobs, or fewer of them waiting"],
  ];
}

const placeText = ({ place, isExact, waiting }: LobbyPlace, whose: string): string =>
  `${isExact ? "" : "about "}${grouped(place)} of ${grouped(waiting)}${whose} outside`;

/** How many wait outside, by tenant; undefined when none does. */
export function outsideText(
  outside: readonly (readonly [tenant: string, waiting: WaitingByClass])[],
): string | undefined {
  const total = outside.reduce((sum, [, waiting]) => sum + sumOf(waiting), 0);
  if (total === 0) return undefined;
  const lines = outside
    .filter(([, waiting]) => sumOf(waiting) > 0)
    .map(([tenant, waiting]) => `  ${tenantText(tenant)}: ${classesText(waiting)}`);
  const more = lines.length - SHOWN;
  return [
    `${counted(total, "more job")} wait${total === 1 ? "s" : ""} outside, because the fleet has no place for them:`,
    ...lines.slice(0, SHOWN),
    ...(more > 0 ? [`  and ${counted(more, "more tenant")}`] : []),
  ].join("\n");
}

const SHOWN = 20;

export const sumOf = (waiting: WaitingByClass): number =>
  JOB_CLASSES.reduce((sum, name) => sum + waiting[name], 0);

const tenantText = (tenant: string): string =>
  tenant === "*" ? "tenants that the fleet file does not name" : tenant;

const classesText = (waiting: WaitingByClass): string =>
  JOB_CLASSES.filter((name) => waiting[name] > 0)
    .map((name) => `${grouped(waiting[name])} ${name}`)
    .join(", ");

const grouped = (count: number): string => count.toLocaleString("en-US");
