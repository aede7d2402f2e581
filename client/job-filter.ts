/**
 * @file Which jobs a list shows: the query for Temporal's visibility, and the check of what visibility cannot know.
 *
 * States, labels and names are checked again on the answer: visibility has stale states, ignores the case of words in lists, and knows no
 * patterns but the beginning of a word.
 */

import { parseLabelChoice, type LabelChoice } from "../domain/job/job-labels.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { JOB_WORKFLOW } from "../protocol/messages.ts";
import { isEndedState, type ListedJob, type ListedState } from "./listed-job.ts";
import {
  CLASS_KEY,
  CLUSTER_KEY,
  FLEET_KEY,
  HOME_KEY,
  isEqual,
  LABELS_KEY,
  NAME_KEY,
  startsWith,
  STATE_KEY,
  TENANT_KEY,
  USER_KEY,
} from "./search-keys.ts";

export interface JobFilter {
  readonly class?: string;
  readonly tenant?: string;
  /** One state, or any of several. */
  readonly state?: ListedState | readonly ListedState[];
  readonly cluster?: string;
  /** The name of the key that signed the job. */
  readonly user?: string;
  /** Only jobs of who asks: `user` is that name. */
  readonly isMine?: true;
  /** `key=value`, or `key` for any value; a job must have all of them. */
  readonly labels?: readonly string[];
  /** A name or an id, in which `*` stands for any text and `?` for one character. */
  readonly name?: string;
  /** A type of GPU that it holds or, while it waits, asks for by name; an ended job has none. */
  readonly gpuType?: string;
  /** Milliseconds since 1970. */
  readonly submittedBeforeMs?: number;
  readonly submittedAfterMs?: number;
  /** Includes ended jobs; absent: only when `state` requests them. */
  readonly all?: boolean;
  readonly limit?: number;
}

/** Temporal's visibility query for a filter. */
export function visibilityQuery(fleet: string, filter: JobFilter): string {
  const {
    class: jobClass,
    tenant,
    cluster,
    all,
    user,
    submittedBeforeMs,
    submittedAfterMs,
  } = filter;
  const states = statesOf(filter);
  const isOpenOnly = all !== true && !states.some(isEndedState);
  return [
    `WorkflowType = "${JOB_WORKFLOW}"`,
    `(${isEqual(FLEET_KEY, fleet)} OR ${isEqual(HOME_KEY, fleet)})`,
    ...(isOpenOnly ? ['ExecutionStatus = "Running"'] : []),
    ...(jobClass === undefined ? [] : [isEqual(CLASS_KEY, jobClass)]),
    ...(tenant === undefined ? [] : [isEqual(TENANT_KEY, tenant)]),
    ...stateQuery(states),
    ...(cluster === undefined ? [] : [isEqual(CLUSTER_KEY, cluster)]),
    ...(user === undefined ? [] : [isEqual(USER_KEY, user)]),
    ...labelChoices(filter).flatMap(({ key, value }) =>
      value === undefined ? [] : [isEqual(LABELS_KEY, `${key}=${value}`)],
    ),
    ...nameQuery(filter.name),
    ...(submittedBeforeMs === undefined ? [] : [`StartTime <= "${isoTime(submittedBeforeMs)}"`]),
    ...(submittedAfterMs === undefined ? [] : [`StartTime >= "${isoTime(submittedAfterMs)}"`]),
  ].join(" AND ");
}

const isoTime = (atMs: number): string => new Date(atMs).toISOString();

function statesOf({ state }: JobFilter): readonly ListedState[] {
  if (state === undefined) return [];
  return typeof state === "string" ? [state] : state;
}

/** Some jobs that wait again last wrote that they run. */
function stateQuery(states: readonly ListedState[]): readonly string[] {
  const written = new Set<string>(states);
  if (written.has("pending")) written.add("running");
  const parts = [...written].map((state) => isEqual(STATE_KEY, state));
  if (parts.length < 2) return parts;
  return [`(${parts.join(" OR ")})`];
}

/** The part before the first wildcard, of the name or of the id; an id that nobody chose begins with the name. */
function nameQuery(pattern: string | undefined): readonly string[] {
  const start = pattern === undefined ? "" : (/^[^*?]*/.exec(pattern)?.[0] ?? "");
  if (start === "") return [];
  const compare = start === pattern ? isEqual : startsWith;
  return [`(${compare(NAME_KEY, start)} OR ${compare({ name: "WorkflowId" }, start)})`];
}

function labelChoices({ labels = [] }: JobFilter): readonly LabelChoice[] {
  return labels.map((text) => {
    const read = parseLabelChoice(text);
    if (read.kind === "read") return read.value;
    throw new OrbweaverError(
      "BAD_INPUT",
      `the label ${JSON.stringify(text)} cannot be searched for: ${read.message}. To mend it, ${read.remedy}.`,
    );
  });
}

/** The check of one listed job, with all that the fleet's ledger adds to it. */
export function jobFits(filter: JobFilter): (job: ListedJob) => boolean {
  const states = statesOf(filter);
  const labels = labelChoices(filter);
  const isNamed = filter.name === undefined ? () => true : patternOf(filter.name);
  const { user, gpuType } = filter;
  return (job) =>
    // The state attribute of a job that was ended from outside is stale; its status is not.
    (states.length === 0 || states.some((state) => state === job.state)) &&
    labels.every(({ key, value }) => hasLabel(job, key, value)) &&
    (user === undefined || job.user === user) &&
    (isNamed(job.jobId) || (job.name !== undefined && isNamed(job.name))) &&
    (gpuType === undefined || (job.gpuTypes ?? []).includes(gpuType));
}

function hasLabel({ labels = {} }: ListedJob, key: string, value: string | undefined): boolean {
  if (!Object.hasOwn(labels, key)) return false;
  return value === undefined || labels[key] === value;
}

function patternOf(pattern: string): (text: string) => boolean {
  const wanted = [...pattern];
  return (text) => isMatch(wanted, [...text]);
}

/** Steps: at most the product of both lengths, because only the last star that was met is tried anew. */
function isMatch(pattern: readonly string[], text: readonly string[]): boolean {
  let at = 0;
  let star = -1;
  let afterStar = 0;
  for (let read = 0; read < text.length;) {
    const wanted = pattern[at];
    if (wanted === "*") {
      star = at;
      at += 1;
      afterStar = read;
    } else if (wanted === "?" || wanted === text[read]) {
      at += 1;
      read += 1;
    } else if (star >= 0) {
      // The star stands for one character more.
      afterStar += 1;
      read = afterStar;
      at = star + 1;
    } else return false;
  }
  return pattern.slice(at).every((each) => each === "*");
}
