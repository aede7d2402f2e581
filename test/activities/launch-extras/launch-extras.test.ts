/** @file The outfit of a run: parts beside each other, and a run that starts whatever becomes of them. */

import { describe, expect, it } from "vitest";
import type { LaunchExtrasOrder } from "../../../protocol/launch-extras-contract.ts";
import { extrasFrom } from "../../../activities/launch-extras/launch-extras.ts";
import type { LaunchExtrasProvider } from "../../../activities/launch-extras/provider.ts";
import { clusterId, jobId, parseHostId } from "../../../domain/values/ids.ts";
import { gib, watts } from "../../../domain/values/units.ts";
import type { FleetShape, HostShape } from "../../../domain/fleet/fleet.ts";
import { parseJobFile } from "../../../domain/job/job-file.ts";
import { MAX_EXTRAS_BYTES, type LaunchExtra } from "../../../domain/lease/launch-extras.ts";

const parsed = parseJobFile({ name: "one", gang: { gpus: 2 }, run: { command: ["true"] } });
if (parsed.kind === "refused") throw new Error("a bad fixture");
const { spec } = parsed;

const orderOf = (parts: readonly LaunchExtra[], hosts = 1): LaunchExtrasOrder => ({
  fleetWorkflowId: "orbweaver-fleet-f",
  jobId: jobId("one"),
  spec,
  gpus: Array.from({ length: hosts }, (_, at) => ({
    host: parseHostId(`alpha/a${String(at)}`),
    mask: 1,
  })),
  attempt: 1,
  parts,
});

const SHAPE = { clusters: [], links: [], tenants: [] };

/** Of the hosts of `orderOf`. */
const shapeWith = (
  host: Pick<HostShape, "devices">,
  cluster: { readonly isSimulated: boolean },
): FleetShape => ({
  ...SHAPE,
  clusters: [
    {
      id: clusterId("alpha"),
      site: "here",
      jurisdiction: "EU",
      ...cluster,
      hosts: [
        {
          id: parseHostId("alpha/a0"),
          gpuType: "H100",
          gpuCount: 2,
          gpuMemoryGiB: gib(80),
          gpuWatts: watts(700),
          ...host,
        },
      ],
    },
  ],
});

const outfitBy = (
  order: LaunchExtrasOrder,
  providers: Partial<Record<LaunchExtra, Omit<LaunchExtrasProvider, "part">>>,
) =>
  extrasFrom(order, SHAPE, {
    storeDir: "",
    loadProvider: (part) => {
      const provider = providers[part];
      return Promise.resolve(provider === undefined ? undefined : { part, ...provider });
    },
  });

const giving = (name: string, text: string): Omit<LaunchExtrasProvider, "part"> => ({
  deadlineMs: 60_000,
  provide: () =>
    Promise.resolve({
      env: { [name.toUpperCase()]: `{files}/${name}` },
      files: [{ name, text }],
      message: `made ${name}`,
    }),
});

describe("the outfit of a served model", () => {
  const ports = { storeDir: "", loadProvider: () => Promise.resolve(undefined) };

  it.each([
    ["its GPUs", {}, false, "cuda"],
    ["the processor where the host says so", { devices: "cpu" }, false, "cpu"],
    ["the processor where GPUs are made up", {}, true, "cpu"],
  ] as const)("names %s, even without a plan", async (_name, host, isSimulated, text) => {
    const report = await extrasFrom(
      orderOf(["inference"]),
      shapeWith(host, { isSimulated }),
      ports,
    );
    // No variable: agents of former releases fail the job for one that they do not know.
    expect(report).toMatchObject({ env: {}, notes: [{ kind: "fallback" }] });
    expect(report.files).toEqual([{ name: "serving-devices", text }]);
  });

  it("says nothing to a job that Orbweaver does not serve, nor of a host that the fleet no longer has", async () => {
    const shape = shapeWith({}, { isSimulated: false });
    expect((await extrasFrom(orderOf(["plan"]), shape, ports)).files).toEqual([]);
    expect((await extrasFrom(orderOf(["inference"]), SHAPE, ports)).files).toEqual([]);
  });
});

describe("the outfit of a run", () => {
  it("joins what the providers give, in the order of the parts", async () => {
    const report = await outfitBy(orderOf(["collectives", "plan"]), {
      plan: giving("plan", "p"),
      collectives: giving("policy", "c"),
    });
    expect(report).toEqual({
      env: { PLAN: "{files}/plan", POLICY: "{files}/policy" },
      files: [
        { name: "plan", text: "p" },
        { name: "policy", text: "c" },
      ],
      notes: [
        { part: "plan", kind: "done", message: "made plan" },
        { part: "collectives", kind: "done", message: "made policy" },
      ],
    });
  });

  it.each([
    {
      name: "throws",
      provider: {
        deadlineMs: 60_000,
        provide: () => Promise.reject(new Error("no such model")),
      },
      want: "started without: no such model",
    },
    {
      name: "never answers",
      provider: { deadlineMs: 1, provide: () => new Promise<never>(() => undefined) },
      want: "started without: it was not ready after 0.001 s",
    },
    {
      name: "has nothing to give",
      provider: { deadlineMs: 60_000, provide: () => Promise.resolve(undefined) },
      want: "started without: it has nothing for this job and these GPUs",
    },
    {
      name: "names a folder",
      provider: giving("../plan", ""),
      want: 'started without: "../plan" is no plain file name',
    },
    {
      name: "gives too much",
      provider: giving("plan", "x".repeat(MAX_EXTRAS_BYTES + 1)),
      want: "started without: its files have 262145 characters; for 1 hosts at most 262144 are carried",
    },
  ])("goes on without a part whose provider $name", async ({ provider, want }) => {
    const report = await outfitBy(orderOf(["plan", "collectives"]), {
      plan: provider,
      collectives: giving("policy", "c"),
    });
    expect(report.files).toEqual([{ name: "policy", text: "c" }]);
    expect(report.notes).toEqual([
      { part: "plan", kind: "fallback", message: want },
      { part: "collectives", kind: "done", message: "made policy" },
    ]);
  });

  it("carries less to each of many hosts", async () => {
    const report = await outfitBy(orderOf(["plan"], 100), {
      plan: giving("plan", "x".repeat(50_000)),
    });
    expect(report.files).toEqual([]);
    expect(report.notes[0]?.message).toContain("for 100 hosts at most 41943");
  });
});
