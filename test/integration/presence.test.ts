/** @file The presence of a cluster on a real server: a contact lasts, and one that the server has lost is begun again. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parseHostId } from "../../domain/values/ids.ts";
import { presenceWorkflowId, type JobResult } from "../../protocol/messages.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

/** Of the cluster whose contact must last, three times as long as this. */
const SILENCE_S = 12;
/** Of the cluster whose link is cut. Long, because a machine that is busy for less changes nothing of what has to come before what. */
const CUT_SILENCE_S = 20;
const FLEET = `
name: present
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    silence: ${String(SILENCE_S)}s
    fence: ${String(SILENCE_S)}s
    hosts:
      - { name: "a[1-3]", gpus: 4, type: H100 }
  - name: beta
    site: here
    jurisdiction: EU
    simulated: true
    silence: ${String(CUT_SILENCE_S)}s
    fence: ${String(CUT_SILENCE_S)}s
    hosts:
      - { name: b1, gpus: 4, type: H100 }
`;
const CUT_HOST = parseHostId("beta/b1");

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
});
afterAll(() => world.stop());

/** The presence's run, and since when contact is kept with its agent, if it is. */
async function contact(): Promise<{ runId: string; sinceS: number | undefined }> {
  const id = presenceWorkflowId(world.fleet, "alpha");
  const { runId, raw } = await world.temporal.workflow.getHandle(id).describe();
  const activity = raw.pendingActivities?.find(
    ({ activityType }) => activityType?.name === "keepContact",
  );
  const hasBeaten = (activity?.lastHeartbeatTime ?? undefined) !== undefined;
  const sinceS = hasBeaten ? Number(activity?.lastStartedTime?.seconds) : undefined;
  return { runId, sinceS };
}

const untilInContact = (otherThan = ""): Promise<{ runId: string; sinceS: number | undefined }> =>
  expect
    .poll(contact)
    .toMatchObject({
      runId: expect.not.stringMatching(`^${otherThan || "none"}$`),
      sinceS: expect.any(Number),
    })
    .then(contact);

it("one contact outlasts its heartbeat timeout many times over", async () => {
  const first = await untilInContact();
  await new Promise((wake) => setTimeout(wake, 1_000 * 3 * SILENCE_S));
  expect(await contact()).toEqual(first);
});

it("an agent whose presence was terminated starts it again, and is in contact", async () => {
  const { runId } = await untilInContact();
  await world.temporal.workflow.getHandle(presenceWorkflowId(world.fleet, "alpha")).terminate();
  expect((await untilInContact(runId)).runId).not.toBe(runId);
});

/** Stands between an agent and its server; while it is cut, nothing gets through and nothing is said about it. */
async function openLink(address: string) {
  const [host = "", port = ""] = address.split(":");
  const sockets = new Set<Socket>();
  let isCut = false;
  const link = createServer((inner) => {
    const outer = connect(Number(port), host);
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      sockets.add(from);
      from.on("data", (bytes: Buffer) => isCut || to.write(bytes));
      from.on("error", () => undefined);
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  link.listen(0, "127.0.0.1");
  await once(link, "listening");
  // A TCP server's address is never a path.
  const own = link.address() as AddressInfo;
  return {
    address: `127.0.0.1:${own.port}`,
    cut: () => {
      isCut = true;
    },
    mend: () => {
      isCut = false;
      // What was swallowed is lost: the connections of before are of no use.
      for (const socket of sockets) socket.destroy();
    },
    close: () => {
      link.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

it("an agent whose link is cut stops what it runs by itself, and the job goes on when it is back", async () => {
  const notes = mkdtempSync(path.join(tmpdir(), "orbweaver-cut-"));
  const link = await openLink(world.address);
  const epochOf = ({ hosts }: Ledger): string => hosts.get(CUT_HOST)?.agent?.epoch ?? "";
  const before = epochOf(await world.ledger());
  await world.kill("agent-beta");
  const cli = path.join(ROOT, "dist/cli/main.js");
  const agent = spawn(process.execPath, [cli, "worker", "--role", "agent", "--cluster", "beta"], {
    env: { ...world.env, TEMPORAL_ADDRESS: link.address },
    stdio: "ignore",
  });
  const textOf = (name: string): string => {
    try {
      return readFileSync(path.join(notes, name), "utf8");
    } catch {
      return "";
    }
  };
  try {
    await world.until("the next agent is known", (ledger) => epochOf(ledger) > before);
    const { jobId } = await world.orbweaver.submit({
      name: "cut",
      gang: { gpus: 1 },
      constraints: { clusters: ["beta"] },
      run: {
        command: [
          "sh",
          "-c",
          // Only the agent sends TERM: a shim that acts in its place kills.
          `echo up >> ${notes}/starts; [ "$(wc -l < ${notes}/starts)" -gt 1 ] && exit 0; trap 'date +%s%3N > ${notes}/told; exit 1' TERM; while :; do sleep 0.1; done`,
        ],
      },
    });
    await expect.poll(() => textOf("starts")).toBe("up\n");
    const cutAtMs = Date.now();
    link.cut();
    await expect.poll(() => textOf("told")).not.toBe("");
    const silentMs = Number(textOf("told")) - cutAtMs;
    // Its fence counts from the last contact, a beat before the cut or two; the fleet waits for a silence and a fence after it.
    expect(silentMs).toBeGreaterThan(1_000 * (CUT_SILENCE_S / 3));
    expect(silentMs).toBeLessThan(1_000 * 2 * CUT_SILENCE_S);
    link.mend();
    const result = (await world.temporal.workflow.getHandle(jobId).result()) as JobResult;
    expect(result).toMatchObject({ attempts: 2 });
    expect(textOf("starts")).toBe("up\nup\n");
  } finally {
    const gone = once(agent, "exit");
    agent.kill("SIGTERM");
    await gone;
    link.close();
    removeFolder(notes);
    await world.startAgent("beta");
  }
});

it("an agent that ends is told of at once, not after its silence", async () => {
  await untilInContact();
  world.process("agent-alpha").kill("SIGTERM");
  const itsHosts = ({ hosts }: Ledger) =>
    [...hosts].flatMap(([host, status]) => (host === CUT_HOST ? [] : [status]));
  const after = await world.until("its hosts are not offered", (ledger) =>
    itsHosts(ledger).every(({ agent }) => agent === undefined),
  );
  // One that has said nothing keeps its hosts until they are fenced.
  expect(itsHosts(after).filter(({ isFenced }) => isFenced === true)).toEqual([]);
});
