/** @file What NCCL had loaded of the collectives plugin stands beside the run, by the hosts that lack some of it. */

import { expect, test } from "vitest";
import type { NcclPlugins } from "../../../domain/bandwidth/collective-evidence.ts";
import { jobView } from "../../../machines/job/job-view.ts";
import { playJob } from "./builders.ts";

const lacking = (ncclPlugins: NcclPlugins | undefined): readonly (NcclPlugins | undefined)[] => {
  const played = playJob();
  played.feed(played.grant(1));
  played.ran({ end: "completed", ...(ncclPlugins !== undefined && { ncclPlugins }) });
  return (jobView(played.job()).attempts.at(-1)?.ncclPlugins ?? []).map(({ plugins }) => plugins);
};

test("hosts that lack some of it are named", () => {
  expect(lacking("none")).not.toHaveLength(0);
  expect(new Set(lacking("none"))).toEqual(new Set(["none"]));
  expect(new Set(lacking("tuner"))).toEqual(new Set(["tuner"]));
});

test("hosts that have both, or say nothing, are not", () => {
  expect(lacking("both")).toEqual([]);
  expect(lacking(undefined)).toEqual([]);
});
