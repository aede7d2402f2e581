/** @file The time that the page shows: a slider from the oldest instant known to the present, and steps from event to event. No hooks. */

import { h, type ComponentChildren } from "preact";
import type { Go } from "../place.ts";
import { durationText } from "../text.ts";
import type { Facts, PastAnswer } from "../wire.ts";

export interface TimeBarProps {
  /** As it stands in the address; empty for the present. */
  readonly at: string;
  readonly facts: Facts;
  readonly answer: PastAnswer | undefined;
  readonly trouble: string | undefined;
  readonly nowMs: number;
  readonly go: Go;
}

const STEP_MS = 1_000;

export function TimeBar({
  at,
  facts,
  answer,
  trouble,
  nowMs,
  go,
}: TimeBarProps): ComponentChildren {
  const past = answer?.past ?? facts.past;
  if (past === undefined) return null;
  const isLive = at === "";
  const shownMs = isLive ? nowMs : Number(at);
  const to = (ms: number | undefined, isSmall = false): void =>
    go({ at: ms === undefined ? "" : String(Math.round(ms)) }, isSmall);
  const button = (label: string, text: string, ms: number | undefined): ComponentChildren =>
    h(
      "button",
      { "aria-label": label, title: label, disabled: ms === undefined, onClick: () => to(ms) },
      text,
    );
  const beforeMs = isLive ? facts.atMs - 1 : answer?.beforeMs;
  return h(
    "section",
    { class: "time-bar", "aria-label": "Time" },
    past.isMore && button("Read the run of the fleet before", "⇤", past.fromMs - 1),
    button("The event before", "◀", beforeMs === undefined ? undefined : beforeMs),
    h("input", {
      type: "range",
      "aria-label": "Instant",
      "aria-valuetext": isLive ? "now" : whenText(shownMs),
      min: Math.floor(past.fromMs),
      max: Math.ceil(nowMs),
      step: STEP_MS,
      value: shownMs,
      onInput: (event: Event) => to(Number((event.target as HTMLInputElement).value), true),
    }),
    button("The event after", "▶", isLive ? undefined : answer?.afterMs),
    h(
      "button",
      { "aria-pressed": isLive, onClick: () => to(undefined) },
      isLive ? "live" : "back to live",
    ),
    h(
      "span",
      { class: wordClass(trouble, isLive), role: "status" },
      trouble ?? (isLive ? `since ${whenText(past.fromMs)}` : pastText(shownMs, nowMs)),
    ),
  );
}

/** Of what stands beside the slider; since when there is a past is left out on narrow screens. */
const wordClass = (trouble: string | undefined, isLive: boolean): string => {
  if (trouble !== undefined) return "bad";
  return isLive ? "quiet since" : "quiet";
};

const pastText = (shownMs: number, nowMs: number): string =>
  `${whenText(shownMs)}, ${durationText(nowMs - shownMs)} ago`;

const whenText = (ms: number): string => new Date(ms).toLocaleString(undefined, { hour12: false });
