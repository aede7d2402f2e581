/** @file The presence of a cluster on a real server: a contact lasts, and one that the server has lost is begun again. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { presenceWorkflowId, type JobResult } from "../../protocol/messages.ts";
import { ROOT, startWorld, type World } from "../support/world.ts";

const FLEET = `
name: present
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    silence: 8s
    fence: 8s
    hosts:
      - { name: "a[1-3]", gpus: 4, type: H100 }
`;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: inject("temporalAddress"), fleetYaml: FLEET });
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
    .poll(contact, { timeout: 60_000 })
    .toMatchObject({
      runId: expect.not.stringMatching(`^${otherThan || "none"}$`),
      sinceS: expect.any(Number),
    })
    .then(contact);

it("one contact outlasts its heartbeat timeout many times over", async () => {
  const first = await untilInContact();
  await new Promise((wake) => setTimeout(wake, 25_000));
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
  const before = [...(await world.ledger()).hosts.values()][0]?.agent?.epoch ?? "";
  await world.kill("agent-alpha");
  const cli = path.join(ROOT, "dist/cli/main.js");
  const agent = spawn(process.execPath, [cli, "worker", "--role", "agent", "--cluster", "alpha"], {
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
    await world.until("the next agent is known", ({ hosts }) =>
      [...hosts.values()].every(({ agent: known }) => known !== undefined && known.epoch > before),
    );
    const { jobId } = await world.orbweaver.submit({
      name: "cut",
      gang: { gpus: 1 },
      run: {
        command: [
          "sh",
          "-c",
          // Only the agent sends TERM: a shim that acts in its place kills.
          `echo up >> ${notes}/starts; [ "$(wc -l < ${notes}/starts)" -gt 1 ] && exit 0; trap 'date +%s%3N > ${notes}/told; exit 1' TERM; while :; do sleep 0.1; done`,
        ],
      },
    });
    await expect.poll(() => textOf("starts"), { timeout: 60_000 }).toBe("up\n");
    const cutAtMs = Date.now();
    link.cut();
    await expect.poll(() => textOf("told"), { timeout: 60_000 }).not.toBe("");
    const silentMs = Number(textOf("told")) - cutAtMs;
    // The last contact was at most a beat before the cut; the fleet waits for a silence and a fence after it.
    expect(silentMs).toBeGreaterThan(4_000);
    expect(silentMs).toBeLessThan(16_000);
    link.mend();
    const result = (await world.temporal.workflow.getHandle(jobId).result()) as JobResult;
    expect(result).toMatchObject({ attempts: 2 });
    expect(textOf("starts")).toBe("up\nup\n");
  } finally {
    const gone = once(agent, "exit");
    agent.kill("SIGTERM");
    await gone;
    link.close();
    rmSync(notes, { recursive: true, force: true });
    await world.startAgent("alpha");
  }
});

it("an agent that ends is told of at once, not after its silence", async () => {
  await untilInContact();
  const startedMs = Date.now();
  world.process("agent-alpha").kill("SIGTERM");
  await world.until("its hosts are not offered", ({ hosts }) =>
    [...hosts.values()].every(({ agent }) => agent === undefined),
  );
  expect(Date.now() - startedMs).toBeLessThan(8_000);
});
