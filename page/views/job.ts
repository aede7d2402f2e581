/** @file One job: where it runs or why it waits, what would help, what the fleet decided about it, and its history in Temporal. */

import { h, type ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Go } from "../place.ts";
import { useJobPage } from "../job-feed.ts";
import type { JobMoment, JobPage } from "../job-wire.ts";
import type { Store } from "../store.ts";
import { counted, durationText, gpuCount } from "../text.ts";
import type { LeaseRow } from "../wire.ts";
import { useText } from "../use-text.ts";
import { Attempts, LifeStrip, Timeline } from "./job-life.ts";
import { Logs } from "./logs.ts";
import { jobOrders, Orders } from "./orders.ts";
import { changesFor, type Change } from "./queue.ts";

interface Props {
  readonly store: Store;
  readonly job: string;
  readonly go: Go;
}

export function JobView({ store, job, go }: Props): ComponentChildren {
  const { tables } = store;
  const leases = [...tables.leases].filter(([, lease]) => lease.job === job);
  const request = tables.requests.get(job);
  const { temporalUrl, mayAct } = store.facts();
  const life = useJobPage(job);
  // A held job has neither a lease nor a request, and may be released.
  const isHere = leases.length > 0 || request !== undefined || (life && life.ended === undefined);
  const isLive = !store.isPast() && isHere;
  const about = life?.about;
  const idle = store.facts().idle?.find((one) => one.job === job);
  return h(
    "section",
    { class: "job wide", "aria-label": `Job ${job}` },
    h("h2", null, job),
    h(
      "p",
      { class: "bar" },
      h("button", { onClick: () => go({ view: "map", job }) }, "Show on the map"),
      temporalUrl !== undefined &&
        h(
          "a",
          { href: `${temporalUrl}${encodeURIComponent(job)}`, target: "_blank", rel: "noreferrer" },
          "History in Temporal",
        ),
    ),
    isLive && mayAct && h(Orders, { buttons: jobOrders(job, leases.length === 0) }),
    about &&
      h(
        "p",
        null,
        `${about.name} · ${about.class} of ${about.tenant} · ${counted(about.gpus, "GPU")}`,
        life?.user !== undefined && ` · signed by ${life.user}`,
        about.tasks !== undefined && ` for each of ${counted(about.tasks, "task")}`,
      ),
    life?.trouble !== undefined && h("p", { class: "bad" }, life.trouble),
    life && h(LifeStrip, { page: life, nowMs: store.nowMs() }),
    life?.ended === undefined &&
      leases.length === 0 &&
      request === undefined &&
      h("p", null, "The fleet's ledger has no such job: it has ended, or has not asked for GPUs."),
    idle &&
      h(
        "p",
        { class: "bad" },
        `None of its GPUs has been used for longer than its tenant may leave them idle${IDLE_ENDS.get(idle.act) ?? "."}`,
      ),
    leases.map(([id, lease]) =>
      h(LeaseFacts, {
        ...{ key: id, id, lease, nowMs: store.nowMs() },
        used: useText(lease.gpus, tables.use),
      }),
    ),
    request && h(WaitFacts, { store, job }),
    hasOutput(life) &&
      (mayAct
        ? h(Logs, { key: job, job, ranks: about?.gpus ?? 1 })
        : h("p", { class: "quiet" }, `Output: orbweaver logs ${job}`)),
    life && h(Attempts, { page: life }),
    life &&
      h(Timeline, { moments: withDecisions(store, life.moments, job), omitted: life.omitted }),
  );
}

const hasOutput = (life: JobPage | undefined): boolean =>
  life !== undefined && life.attempts.length > 0;

/** The job's own moments, and what the last decisions of the fleet say of its reservations and of evictions for it. */
function withDecisions(
  store: Store,
  moments: readonly JobMoment[],
  job: string,
): readonly JobMoment[] {
  const said = [...store.tables.decisions.values()].flatMap(
    ({ atMs, evictions, reservations }): readonly JobMoment[] =>
      [
        ...reservations.filter((line) => line.startsWith(`${job}: `)),
        ...evictions.filter((line) => line.includes(` for ${job},`)),
      ].map((text) => ({ atMs, kind: "reserved", text })),
  );
  return [...moments, ...said].sort((one, other) => one.atMs - other.atMs);
}

const IDLE_ENDS: ReadonlyMap<string, string> = new Map([
  ["notify", "; those who are to know have been told."],
  ["suspend", "; it is suspended for that."],
]);

function LeaseFacts({
  id,
  lease,
  used,
  nowMs,
}: {
  readonly id: string;
  readonly used: ReturnType<typeof useText>;
  readonly lease: LeaseRow;
  readonly nowMs: number;
}): ComponentChildren {
  const { wanted, forJob, checkpointedAtMs, lostGpuSeconds = 0 } = lease;
  const count = gpuCount(lease.gpus);
  return h(
    "div",
    { class: "card" },
    h(
      "p",
      null,
      `${id}: ${counted(count, "GPU")}, ${lease.state}, for ${durationText(nowMs - lease.sinceMs)} · ${lease.class} of ${lease.tenant}`,
      wanted !== undefined && wanted > count && ` · asked for ${wanted}`,
    ),
    forJob !== undefined &&
      h(
        "p",
        null,
        `Makes room for ${forJob}; ${Math.round(lostGpuSeconds)} GPU-seconds of work are lost.`,
      ),
    used !== undefined && h("p", { class: used.isIdle ? "bad" : "" }, used.text),
    checkpointedAtMs !== undefined &&
      h("p", null, `Newest checkpoint ${durationText(nowMs - checkpointedAtMs)} ago.`),
  );
}

function WaitFacts({
  store,
  job,
}: {
  readonly store: Store;
  readonly job: string;
}): ComponentChildren {
  const [changes, setChanges] = useState<readonly Change[]>();
  const { tables } = store;
  const request = tables.requests.get(job);
  const reason = tables.reasons.get(job);
  const isPast = store.isPast();
  useEffect(() => {
    if (isPast) return;
    let isOver = false;
    void changesFor(job).then((found) => {
      if (!isOver) setChanges(found);
    });
    return () => void (isOver = true);
  }, [job, isPast, reason?.code]);
  if (request === undefined) return null;
  const place = store.order().indexOf(job) + 1;
  return h(
    "div",
    { class: "card" },
    h(
      "p",
      null,
      `Waits for ${counted(request.gpus, "GPU")}${request.slots === undefined ? "" : ` × ${request.slots}`}, ${durationText(store.nowMs() - request.submittedAtMs)}; place ${place} of ${store.order().length} · ${request.class} of ${request.tenant}, priority ${request.priority}`,
    ),
    h(
      "p",
      null,
      h("span", { class: "code" }, reason?.code ?? "PendingEvaluation"),
      " ",
      reason?.message,
    ),
    reason &&
      Object.keys(reason.numbers).length > 0 &&
      h(
        "dl",
        { class: "numbers" },
        Object.entries(reason.numbers).flatMap(([name, value]) => [
          h("dt", { key: name }, name),
          h("dd", { key: `${name}=` }, value.toLocaleString("en")),
        ]),
      ),
    !isPast && h(Remedies, { changes }),
  );
}

const Remedies = ({
  changes,
}: {
  readonly changes: readonly Change[] | undefined;
}): ComponentChildren => [
  h("h3", { key: "title" }, "What would start it now"),
  changes === undefined
    ? h("p", { key: "none", class: "quiet" }, "The scheduler is trying changes…")
    : changes.length === 0
      ? h("p", { key: "none", class: "quiet" }, "No change that was tried would.")
      : h(
          "ol",
          { key: "list" },
          changes.map(({ text, lostGpuSeconds, gpus }) =>
            h(
              "li",
              { key: text },
              `${text}: ${counted(gpus, "GPU")}`,
              lostGpuSeconds > 0 &&
                `, ${Math.round(lostGpuSeconds)} GPU-seconds of others' work lost`,
            ),
          ),
        ),
];
