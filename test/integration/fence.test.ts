/** @file Hosts that fall silent while jobs run there: after the fence the jobs go on elsewhere, and nothing runs twice. */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { JobResult } from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";
import { isAlive } from "../support/processes.ts";
import { removeFolder } from "../support/remove-folder.ts";

interface Rules {
  readonly fence: string;
  readonly jurisdiction: string;
  readonly onSilence?: string;
}
/** Small, so that a job of a whole host goes to `near` first. */
const cluster = (name: string, { fence, jurisdiction, onSilence = "fence" }: Rules): string => `
  - name: ${name}
    site: here
    jurisdiction: ${jurisdiction}
    simulated: true
    silence: 6s
    fence: ${fence}
    onSilence: ${onSilence}
    hosts:
      - { name: h1, gpus: 2, type: H100 }
`;

let world: World;
let notes: string;
beforeAll(async () => {
  notes = mkdtempSync(path.join(tmpdir(), "orbweaver-fence-"));
  const clusters = [
    cluster("far", { fence: "12s", jurisdiction: "EU" }),
    cluster("near", { fence: "12s", jurisdiction: "EU" }),
    cluster("kept", { fence: "12s", jurisdiction: "US", onSilence: "hold" }),
    // So late that a silence ends before it on any machine.
    cluster("slow", { fence: "5m", jurisdiction: "CH" }),
  ];
  const fleetYaml = `name: fenced\nclusters:${clusters.join("")}`;
  world = await startWorld({ address: serverAddress(), fleetYaml });
});
afterAll(async () => {
  await world.stop();
  removeFolder(notes);
});

/** Notes who runs where; the first run lasts until it is killed, later ones end at once. */
const runOnce = (name: string): string[] => [
  "sh",
  "-c",
  `echo "$$ $CUDA_VISIBLE_DEVICES $ORBWEAVER_LEASE_ID" >> ${notes}/${name}; [ "$(wc -l < ${notes}/${name})" -gt 1 ] || exec sleep 600`,
];

const resultOf = async (jobId: string): Promise<JobResult> =>
  (await world.temporal.workflow.getHandle(jobId).result()) as JobResult;

const linesOf = (name: string): readonly string[] => {
  try {
    return readFileSync(path.join(notes, name), "utf8").trim().split("\n");
  } catch {
    return [];
  }
};

async function startedOn(name: string, jobId: string): Promise<{ pid: number; host: string }> {
  await expect.poll(() => linesOf(name).length).toBe(1);
  const pid = Number(linesOf(name)[0]?.split(" ")[0]);
  const { leases } = await world.ledger();
  const host = [...leases.values()].find((lease) => lease.jobId === jobId)?.gpus[0]?.host ?? "";
  return { pid, host };
}

it("a job whose host's agent is dead goes on elsewhere after the fence, when the shim has ended what ran", async () => {
  const { jobId } = await world.orbweaver.submit({
    name: "moves",
    gang: { gpus: 1 },
    constraints: { jurisdictions: ["EU"] },
    run: { command: runOnce("moves") },
  });
  const first = await startedOn("moves", jobId);
  const cluster = first.host.split("/")[0] ?? "";
  await world.kill(`agent-${cluster}`);
  const result = await resultOf(jobId);
  expect(result).toMatchObject({ attempts: 2 });
  expect(result.hosts).not.toContain(first.host);
  expect(isAlive(first.pid)).toBe(false);
  const fenced = await world.until(
    "the host is fenced and nothing is held",
    ({ hosts, leases }) =>
      leases.size === 0 &&
      [...hosts].some(([id, { isFenced }]) => id === first.host && isFenced === true),
  );
  expect(fenced.leases.size).toBe(0);

  await world.startAgent(cluster);
  await world.until("the host is offered again", ({ hosts }) =>
    [...hosts].some(
      ([id, { agent, isFenced }]) =>
        id === first.host && agent !== undefined && isFenced === undefined,
    ),
  );
});

it("a silence that ends before the fence costs the job nothing", async () => {
  const go = path.join(notes, "go");
  const { jobId } = await world.orbweaver.submit({
    name: "waits",
    gang: { gpus: 1 },
    constraints: { jurisdictions: ["CH"] },
    run: {
      command: ["sh", "-c", `echo $$ >> ${notes}/waits; until [ -e ${go} ]; do sleep 0.2; done`],
    },
  });
  await startedOn("waits", jobId);
  const agent = world.process("agent-slow");
  agent.kill("SIGSTOP");
  await world.until("the fleet has heard of the silence", ({ hosts }) =>
    [...hosts].some(([id, { silentSinceMs }]) => id === "slow/h1" && silentSinceMs !== undefined),
  );
  agent.kill("SIGCONT");
  writeFileSync(go, "");
  const result = await resultOf(jobId);
  expect(result).toMatchObject({ attempts: 1 });
  expect(linesOf("waits")).toHaveLength(1);
  await world.until(
    "every host answers",
    ({ hosts, leases }) =>
      leases.size === 0 &&
      [...hosts.values()].every(({ silentSinceMs }) => silentSinceMs === undefined),
  );
});

it("a host with `onSilence: hold` keeps its job until an operator fences it", async () => {
  const { jobId } = await world.orbweaver.submit({
    name: "held",
    gang: { gpus: 1 },
    constraints: { jurisdictions: ["US"] },
    run: { command: runOnce("held") },
  });
  const first = await startedOn("held", jobId);
  await world.kill("agent-kept");
  await world.until("the host is silent", ({ hosts }) =>
    [...hosts].some(([id, { silentSinceMs }]) => id === "kept/h1" && silentSinceMs !== undefined),
  );
  // Well past the fence of the other clusters, and of the shim's last resort.
  await new Promise((resolve) => setTimeout(resolve, 20_000));
  expect(isAlive(first.pid)).toBe(true);
  expect((await world.ledger()).leases.size).toBe(1);

  await world.orbweaver.fence(["kept/h1"]);
  await world.until(
    "the job asks again",
    ({ requests, leases }) => leases.size === 0 && [...requests.keys()].some((id) => id === jobId),
  );
  // The operator was wrong: what still ran is stopped before the job runs again there.
  await world.startAgent("kept");
  const result = await resultOf(jobId);
  expect(result).toMatchObject({ attempts: 2 });
  expect(isAlive(first.pid)).toBe(false);
});
