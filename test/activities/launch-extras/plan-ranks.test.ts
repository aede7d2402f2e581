/** @file Ranks of a planned run: whatever order of hosts the plan takes, each process finds its own host in the plan, and Megatron-LM's rank 0 is where `MASTER_ADDR` points. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { planProviderOver } from "../../../activities/launch-extras/plan.ts";
import { planRanks } from "../../../agent/runs/rank-environment.ts";
import { parseFleetYaml } from "../../../domain/fleet/fleet-file.ts";
import { parseJobYaml } from "../../../domain/job/job-file.ts";
import { ledBy, type LaunchExtras } from "../../../domain/lease/launch-extras.ts";
import type { HostGpus } from "../../../domain/lease/lease.ts";
import { clusterId, hostId, jobId } from "../../../domain/values/ids.ts";
import type { PlanDocument } from "../../../planning/parallelism/plan-document.ts";
import { orderOf } from "../../agent/fixture.ts";

const EU = clusterId("eu-1");
const LEASE: readonly HostGpus[] = [
  { host: hostId(EU, "h1"), mask: 0b1111 },
  { host: hostId(EU, "h2"), mask: 0b1111 },
];

/** A model that only fits where its first stages are on the second host, whose cards are larger. */
async function provided(types: readonly [string, string], of: { readonly mayLead?: true }) {
  const fleet = parseFleetYaml(
    `
clusters:
  - name: eu-1
    site: a
    jurisdiction: EU
    hosts: [{ name: h1, gpus: 4, type: ${types[0]} }, { name: h2, gpus: 4, type: ${types[1]} }]
tenants:
  - { name: default, quota: { "*": 8 } }
`,
    { file: "f", read: () => ({ kind: "missing", reason: "" }) },
  );
  const job = parseJobYaml(
    "name: train\ngang: { gpus: 8 }\nmodel: llama-7b\nbatch: 32\nrun: { command: [x] }",
    { file: "job.yaml" },
  );
  if (fleet.kind === "refused" || job.kind === "refused") throw new Error("a file is refused");
  const made = await planProviderOver(() => Promise.resolve([])).provide(
    {
      ...{ fleetWorkflowId: "fleet", jobId: jobId("job-1"), spec: job.spec, gpus: LEASE },
      ...{ attempt: 1, parts: ["plan"], ...of },
    },
    fleet.fleet.shape,
    new AbortController().signal,
  );
  return { made, plan: JSON.parse(made?.files[0]?.text ?? "") as PlanDocument };
}

/** What each process of the lease is told: its rank, its host, and the host of `MASTER_ADDR`. */
function launched(lead: LaunchExtras["leadHost"]) {
  const gang = ledBy(LEASE, lead).map((part) => ({ ...part, address: `at ${part.host}` }));
  return gang.flatMap(({ host }) =>
    planRanks(
      { ...orderOf("", { gang }), host },
      {
        ...{ agentEnv: {}, launchDir: "/l", owner: "o", masterPort: 1 },
        ...{ checkpointDir: "/c", checkpoint: undefined },
      },
    ).map(({ rank, env }) => ({ rank, host, master: env["MASTER_ADDR"] })),
  );
}

test.each([
  { types: ["T4", "A100"], want: "eu-1/h2" },
  { types: ["A100", "T4"], want: undefined },
] as const)(
  "of $types, the lead is $want, and processes are numbered as the plan says",
  async ({ types, want }) => {
    const { made, plan } = await provided([...types], { mayLead: true });
    expect(made?.leadHost).toBe(want);
    const processes = launched(made?.leadHost);
    expect(plan.ranks.map(({ rank, host }) => ({ rank, host }))).toEqual(
      processes.map(({ rank, host }) => ({ rank, host })),
    );
    const first = plan.ranks.find(({ megatronRank }) => megatronRank === 0);
    expect(plan.hosts[0]).toBe(first?.host);
    for (const { master } of processes) expect(master).toBe(`at ${first?.host ?? ""}`);
  },
);

test("a job whose code starts gangs as leases say gets a plan with the ranks of the lease", async () => {
  const { made, plan } = await provided(["T4", "A100"], {});
  expect(made?.leadHost).toBeUndefined();
  expect(plan.ranks.map(({ rank, host }) => ({ rank, host }))).toEqual(
    launched(undefined).map(({ rank, host }) => ({ rank, host })),
  );
});

test("a lead comes first, and the others stay as they are", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(9), { minLength: 1 }), fc.nat(12), (names, lead) => {
      const parts = names.map((name) => ({ host: hostId(EU, `h${String(name)}`) }));
      const led = ledBy(parts, hostId(EU, `h${String(lead)}`)).map(({ host }) => host);
      expect(led[0]).toBe(names.includes(lead) ? `eu-1/h${String(lead)}` : parts[0]?.host);
      const rest = led.slice(names.includes(lead) ? 1 : 0);
      const others = parts.map(({ host }) => host).filter((host) => rest.includes(host));
      expect(rest).toEqual(others);
      expect(new Set(led).size).toBe(names.length);
    }),
  );
});
