/** @file Jobs follow each other through a stand-in for Temporal's client, whose signals fail as a server's do. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { expect, test } from "vitest";
import { createFollowActivities } from "../../activities/follow-jobs.ts";
import { jobId } from "../../domain/values/ids.ts";
import { FULL_MEMO } from "../../protocol/predecessors.ts";

type Fault = "gone" | "refused" | "away";
interface StoodIn {
  readonly status?: string;
  readonly memo?: object;
  readonly onSignal?: Fault;
  readonly onDescribe?: Fault;
}

function thrown(fault: Fault | undefined): void {
  if (fault === "gone") throw new WorkflowNotFoundError("no such workflow", "w", undefined);
  const grpc = (code: number) =>
    Object.assign(new Error("grpc"), { code, details: "", metadata: {} });
  if (fault === "refused") throw new Error("failed", { cause: grpc(3) });
  if (fault === "away") throw new Error("failed", { cause: grpc(14) });
}

/** The jobs by their ids, and what was asked for in its order. */
function standIn(jobs: Readonly<Record<string, StoodIn>>) {
  const asked: string[] = [];
  const getHandle = (id: string) => {
    const { status = "RUNNING", memo, onSignal, onDescribe } = jobs[id] ?? {};
    return {
      signal: () =>
        Promise.resolve(`signal ${id}`).then((word) => {
          asked.push(word);
          thrown(onSignal);
        }),
      describe: () =>
        Promise.resolve(`describe ${id}`).then((word) => {
          asked.push(word);
          thrown(onDescribe);
          const get = () => "running";
          return { type: "job", status: { name: status }, memo, typedSearchAttributes: { get } };
        }),
    };
  };
  const client = { workflow: { getHandle } } as unknown as Client;
  return { asked, ...createFollowActivities(client) };
}

const ids = (...names: readonly string[]) => names.map(jobId);

test("each job is described, whichever of them takes no signal, and the word comes before the last look", async () => {
  const { asked, followJobs } = standIn({
    a: { onSignal: "refused" },
    b: { onSignal: "away" },
    c: { onDescribe: "gone" },
    d: { onDescribe: "refused" },
    e: {},
  });
  const news = await followJobs(ids("a", "b", "c", "d", "e"), jobId("f"));
  expect(news.map(({ job, state }) => `${job} ${state}`)).toEqual([
    "a running",
    "b running",
    "c gone",
    "d gone",
    "e running",
  ]);
  expect(asked.filter((word) => word.endsWith(" e"))).toEqual([
    "describe e",
    "signal e",
    "describe e",
  ]);
});

test("a job that has ended, or notes no more followers, gets no word", async () => {
  const { asked, followJobs } = standIn({
    ended: { status: "COMPLETED" },
    full: { memo: { [FULL_MEMO]: true } },
  });
  expect(await followJobs(ids("ended", "full"), jobId("f"))).toEqual([
    { job: "ended", state: "completed" },
    { job: "full", state: "running" },
  ]);
  expect(asked).toEqual(["describe ended", "describe full"]);
});

test("one that cannot be reached hides none of the others; where none can, nobody was told and all are tried again", async () => {
  const some = standIn({ a: { onDescribe: "away" }, b: {} });
  expect(await some.followJobs(ids("a", "b"), jobId("f"))).toEqual([
    { job: "b", state: "running" },
  ]);
  const none = standIn({ a: { onDescribe: "away" } });
  await expect(none.followJobs(ids("a"), jobId("f"))).rejects.toThrow("failed");
  expect(none.asked).toEqual(["describe a"]);
});

test("a follower that cannot be signalled keeps the word from no other", async () => {
  const names = Array.from({ length: 40 }, (_, at) => `f-${String(at)}`);
  const news = { job: jobId("a"), state: "running" } as const;
  const gone = standIn({ "f-0": { onSignal: "refused" }, "f-1": { onSignal: "gone" } });
  await gone.tellFollowers(ids(...names), news);
  expect(gone.asked).toHaveLength(40);
  const away = standIn({ "f-0": { onSignal: "away" } });
  await expect(away.tellFollowers(ids(...names), news)).rejects.toThrow("failed");
  expect(away.asked).toHaveLength(40);
});
