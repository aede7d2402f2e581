/** @file What a tuned run is given: the policy of the place where it is, sealed and as a file, and whom to report to. */

import { describe, expect, it } from "vitest";
import type { LaunchExtrasOrder } from "../../../protocol/launch-extras-contract.ts";
import { ORDER_FILE, POLICY_FILE, type AskTuner } from "../../../protocol/collective-files.ts";
import { collectivesProvider } from "../../../activities/launch-extras/collectives.ts";
import { NO_POLICY } from "../../../domain/bandwidth/collective-evidence.ts";
import { jobId, parseHostId } from "../../../domain/values/ids.ts";
import { parseJobFile } from "../../../domain/job/job-file.ts";
import { extrasOf } from "../../../domain/lease/launch-extras.ts";

const specOf = (collectives: unknown) => {
  const parsed = parseJobFile({
    name: "one",
    gang: { gpus: 4 },
    run: { command: ["true"] },
    ...(collectives !== undefined && { collectives }),
  });
  if (parsed.kind === "refused") throw new Error("a bad fixture");
  return parsed.spec;
};
const orderOf = (
  collectives: unknown,
  hosts: readonly string[],
  mask = 0b11,
): LaunchExtrasOrder => ({
  fleetWorkflowId: "orbweaver-fleet-mine",
  jobId: jobId("one"),
  spec: specOf(collectives),
  gpus: hosts.map((host) => ({ host: parseHostId(host), mask })),
  attempt: 1,
  parts: ["collectives"],
});
const SHAPE = { clusters: [], links: [], tenants: [] };
const { signal } = new AbortController();

/** A tuner in each place, with a policy that says where it is from. */
const tuners: AskTuner<AbortSignal> = ({ topology }) =>
  Promise.resolve({ ...NO_POLICY, version: 3, text: `policy of\n${topology.cluster}\n` });

describe("what a tuned run is given", () => {
  it("is the policy in its environment and as a file, and the tuner to report to", async () => {
    const order = orderOf({ overlap: false }, ["eu-1/a", "eu-1/b"]);
    const given = await collectivesProvider(tuners).provide(order, SHAPE, signal);
    expect(given?.env).toEqual({
      ORBWEAVER_COLLECTIVES_POLICY: `{files}/${POLICY_FILE}`,
      ORBWEAVER_COLLECTIVES_SEALED: "policy of;eu-1;",
      ORBWEAVER_COLLECTIVES_REWARDS: "{files}/collectives.rewards",
    });
    expect(given?.files[0]).toEqual({ name: POLICY_FILE, text: "policy of\neu-1\n" });
    expect(given?.files[1]?.name).toBe(ORDER_FILE);
    expect(JSON.parse(given?.files[1]?.text ?? "")).toMatchObject({
      fleet: "mine",
      hasOverlap: false,
      topology: { cluster: "eu-1", nodes: 2, ranks: 4 },
    });
  });

  it("after a move is the policy of the new place", async () => {
    const { provide } = collectivesProvider(tuners);
    const before = await provide(orderOf({}, ["eu-1/a", "eu-1/b"]), SHAPE, signal);
    const after = await provide(orderOf({}, ["us-1/a", "us-1/b"]), SHAPE, signal);
    expect(before?.env["ORBWEAVER_COLLECTIVES_SEALED"]).toBe("policy of;eu-1;");
    expect(after?.env["ORBWEAVER_COLLECTIVES_SEALED"]).toBe("policy of;us-1;");
  });

  it("is nothing for a job on one GPU, which does not communicate", async () => {
    const order = orderOf({}, ["eu-1/a"], 1);
    expect(await collectivesProvider(tuners).provide(order, SHAPE, signal)).toBeUndefined();
  });

  it("is a reason instead where no policy could be made", async () => {
    const none: AskTuner<AbortSignal> = () => Promise.resolve(NO_POLICY);
    const made = collectivesProvider(none).provide(orderOf({}, ["eu-1/a"]), SHAPE, signal);
    await expect(made).rejects.toThrow("there is no policy yet");
  });
});

describe("a job file", () => {
  it.each([
    { collectives: undefined, want: [] },
    { collectives: {}, want: ["collectives"] },
    { collectives: { tune: true }, want: ["collectives"] },
    { collectives: { tune: false }, want: [] },
  ])("with collectives $collectives asks for $want", ({ collectives, want }) => {
    expect(extrasOf(specOf(collectives))).toEqual(want);
  });
});
