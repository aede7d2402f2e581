/**
 * @file `notify:` of a job file: addresses that are told of the job. Only those under an address that the fleet file lists in `jobNotices` are; commands
 * are none of a job's, because they would run as the console's user.
 */

import { z } from "zod";
import { choice, duration, text } from "../file/schema-leaf.ts";
import { problemAt, valueAt, type SchemaProblem } from "../file/schema-problems.ts";
import type { RefusedValue } from "../values/quantity.ts";
import { shown, type ValuePath } from "../values/file-problem.ts";
import type { Ms } from "../values/units.ts";
import { MAX_ADDRESS_CHARS, readWebAddress } from "../values/web-address.ts";

/** `waiting`: for longer than `waiting:` says. `ended`: in whatever way. `failed`: also what was terminated or timed out. `gpu-idle`: for longer than its tenant's `idle:` says. */
export const JOB_NOTICE_EVENTS = [
  "started",
  "preempted",
  "waiting",
  "ended",
  "failed",
  "gpu-idle",
] as const;
export type JobNoticeEvent = (typeof JOB_NOTICE_EVENTS)[number];

const MOST_NOTICES = 8;
const WAYS = ["webhook", "slack"] as const;
export type NoticeWay = (typeof WAYS)[number];

/** One entry of `notify:`. */
export interface JobNotice {
  readonly way: NoticeWay;
  readonly address: string;
  readonly on: readonly JobNoticeEvent[];
  /** Of `waiting`. */
  readonly waitingMs?: Ms;
}

const entry = z
  .strictObject({
    webhook: text({
      description: "Gets a POST with a JSON document for each notice.",
      maxLength: MAX_ADDRESS_CHARS,
      examples: ["https://hooks.example.org/orbweaver"],
    }).optional(),
    slack: text({
      description:
        "Gets the same as a message, as incoming webhooks of Slack read it. Whoever may read the job may read the address.",
      maxLength: MAX_ADDRESS_CHARS,
      examples: ["https://hooks.slack.com/services/T000/B000/XXXX"],
    }).optional(),
    on: z
      .array(choice(JOB_NOTICE_EVENTS, { description: "An event." }))
      .min(1)
      .meta({ description: "What it is told.", examples: [["failed", "preempted"]] }),
    waiting: duration({
      description: "How long the job waits before `waiting` is told, once.",
      examples: ["2h"],
    }).optional(),
  })
  .meta({ description: "An address, and what it is told." });

export const NOTICE_KEYS = {
  notify: z
    .array(entry)
    .min(1)
    .max(MOST_NOTICES)
    .meta({
      description:
        "Who is told of the job, by a webhook or Slack. The fleet file says which addresses may be named (jobNotices).",
      examples: [[{ webhook: "https://hooks.example.org/orbweaver", on: ["failed"] }]],
    })
    .optional(),
};

export const noticesOf = (
  entries: readonly z.output<typeof entry>[] | undefined,
): readonly JobNotice[] =>
  (entries ?? []).flatMap(({ webhook, slack, on, waiting }): readonly JobNotice[] => {
    const address = webhook ?? slack;
    if (address === undefined) return [];
    const way = webhook === undefined ? "slack" : "webhook";
    return [{ way, address, on, ...(waiting !== undefined && { waitingMs: waiting }) }];
  });

export function noticeProblems(file: unknown): SchemaProblem[] {
  const entries = valueAt(file, ["notify"]);
  if (!Array.isArray(entries)) return [];
  return entries.flatMap((_, at) => entryProblems(file, ["notify", at]));
}

function entryProblems(file: unknown, path: ValuePath): SchemaProblem[] {
  const valueOf = (key: string): unknown => valueAt(file, [...path, key]);
  const named = WAYS.filter((way) => valueOf(way) !== undefined);
  const problems: SchemaProblem[] = [];
  if (named.length !== 1) {
    const message = named.length === 0 ? "nothing says how it is told" : "two ways to tell it";
    const remedy =
      named.length === 0 ? "write webhook or slack" : "make an entry of its own for each";
    problems.push(problemAt(file, path, { message, remedy }));
  }
  for (const way of named) {
    const address = valueOf(way);
    if (typeof address === "string" && address !== "" && readWebAddress(address) === undefined)
      problems.push(problemAt(file, [...path, way], addressProblem(address)));
  }
  const on = valueOf("on");
  const waits = Array.isArray(on) ? waitProblems(on.includes("waiting"), valueOf("waiting")) : [];
  return [...problems, ...waits.map((problem) => problemAt(file, path, problem))];
}

export const addressProblem = (address: string): Pick<RefusedValue, "message" | "remedy"> => ({
  message: `${shown(address)} is no plain address of a web server`,
  remedy:
    "write https:// or http://, the host in lower case, and a path, without a user, a fragment, ./.. or escaped slashes",
});

/** `on: waiting` and `waiting:` belong together. */
export function waitProblems(
  isAsked: boolean,
  waiting: unknown,
): readonly Pick<RefusedValue, "message" | "remedy">[] {
  if (isAsked === (waiting !== undefined)) return [];
  const message = isAsked
    ? "on: waiting needs the time after which it is told"
    : "waiting says when it is told, and on does not name it";
  const remedy = isAsked ? "add waiting: 2h" : "add waiting to on, or leave it out";
  return [{ message, remedy }];
}
