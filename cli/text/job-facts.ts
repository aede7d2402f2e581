/** @file The settings of a job as labelled lines. */

import { messagesText } from "../../domain/bandwidth/message-profile.ts";
import type { Constraints, JobSpec } from "../../client/index.ts";
import { labelTexts } from "../../domain/job/job-labels.ts";
import { needText } from "../../domain/job/job-resources.ts";
import { counted, durationText } from "../terminal/duration.ts";
import { shellQuoted } from "../../lib/shell-word.ts";

/** Characters that name tasks. */
const MOST_TASKS = 30;

type Fact = readonly [label: string, value: string | undefined];

export function specFacts(spec: JobSpec): readonly Fact[] {
  const { name, tenant, gang, run, priority } = spec;
  return [
    ["name", name],
    ["class", spec.class],
    ["tenant", tenant],
    ["labels", spec.labels === undefined ? undefined : labelTexts(spec.labels).join(", ")],
    ["priority", priority === 0 ? undefined : String(priority)],
    ["GPUs", gangText(gang)],
    ["tasks", arrayText(spec.array)],
    ["needs", constraintsText(spec.constraints)],
    [
      "goes on from",
      run.checkpoint?.from === undefined
        ? undefined
        : `the newest checkpoint of ${run.checkpoint.from} on its hosts`,
    ],
    ["resources", run.resources === undefined ? undefined : needText(run.resources)],
    ["command", run.command.map(shellWord).join(" ")],
    ["time limit", spec.timeLimitMs === undefined ? undefined : durationText(spec.timeLimitMs)],
    [
      "deadline",
      spec.deadlineMs === undefined
        ? undefined
        : `${durationText(spec.deadlineMs)} after its submission`,
    ],
    [
      "fleets",
      spec.cells === undefined
        ? undefined
        : `${spec.cells.fleets.join(", ")}, each for ${durationText(spec.cells.patienceMs)} at first`,
    ],
    [
      "retry",
      spec.retry.attempts === 1 ? undefined : `up to ${counted(spec.retry.attempts, "run")}`,
    ],
  ];
}

function arrayText(array: JobSpec["array"]): string | undefined {
  if (array === undefined) return undefined;
  const { count, parallel, tasks } = array;
  const most = parallel < count ? `, at most ${String(parallel)} at once` : "";
  if (tasks === undefined) return `${String(count)}${most}`;
  const some = tasks.length > MOST_TASKS ? `${tasks.slice(0, MOST_TASKS)}…` : tasks;
  return `${some} of 0 to ${String(count - 1)}${most}; the others count as cancelled`;
}

function gangText({ gpus, min, timeoutMs }: JobSpec["gang"]): string {
  return min === gpus
    ? String(gpus)
    : `${String(gpus)}, down to ${String(min)} after ${durationText(timeoutMs)}`;
}

function constraintsText(constraints: Constraints): string | undefined {
  const { jurisdictions, clusters, hosts, gpuTypes, gpuMemoryGiB, maxClusters } = constraints;
  const parts = [
    ...(gpuTypes === undefined ? [] : [`GPU ${gpuTypes.join(" or ")}`]),
    ...(gpuMemoryGiB === undefined ? [] : [`${String(gpuMemoryGiB)} GiB a GPU`]),
    ...(clusters === undefined ? [] : [`cluster ${clusters.join(" or ")}`]),
    ...(hosts === undefined ? [] : [`on ${hosts.join(" or ")}`]),
    ...(jurisdictions === undefined ? [] : [`in ${jurisdictions.join(" or ")}`]),
    ...(maxClusters === undefined ? [] : [`at most ${counted(maxClusters, "cluster")}`]),
    ...(constraints.isSameHost ? ["one host"] : []),
    ...(constraints.isSameFabric ? ["one fabric"] : []),
    ...(constraints.prefer === undefined ? [] : [`${constraints.prefer} first between clusters`]),
    ...(constraints.messages === undefined
      ? []
      : [`fastest for messages of ${messagesText(constraints.messages)}`]),
  ];
  return parts.length === 0 ? undefined : parts.join(", ");
}

/** As typed in a shell, quoted where the shell would split or expand it. */
function shellWord(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : shellQuoted(word);
}
