/** @file The fleet workflow as an entity: it outlives junk, and continues as new without losing anything. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  configureUpdate,
  drainGpusUpdate,
  drainUpdate,
  fleetWorkflowId,
  inboxSignal,
  undrainGpusUpdate,
} from "../../protocol/messages.ts";
import { parseHostId } from "../../domain/values/ids.ts";
import { serverAddress } from "../support/server-address.ts";
import { PATIENCE_MS, SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

const fleet = () => world.temporal.workflow.getHandle(fleetWorkflowId(world.fleet));
const sleeper = (seconds: number) => ({
  name: "sleeper",
  gang: { gpus: 4 },
  run: { command: ["sleep", String(seconds)] },
});

/** A signal as a client with another codec, or a torn one, sends it. */
const rawSignal = ({ encoding, data }: { readonly encoding: string; readonly data: string }) =>
  world.temporal.workflowService.signalWorkflowExecution({
    namespace: "default",
    workflowExecution: { workflowId: fleetWorkflowId(world.fleet) },
    signalName: "inbox",
    input: {
      payloads: [{ metadata: { encoding: Buffer.from(encoding) }, data: Buffer.from(data) }],
    },
  });

/** Before each order ended its run at once, so many made the fleet wait for ten seconds. */
const ORDERS = 12;

/** The run and those after it: how many orders each took, and how long the server waited before it began. */
async function runsSince(
  first: string,
): Promise<readonly { readonly orders: number; readonly delayMs: number }[]> {
  const runs = [];
  for (let runId: string | undefined = first; runId;) {
    const { events } = await world.temporal.workflow
      .getHandle(fleetWorkflowId(world.fleet), runId)
      .fetchHistory();
    const [started] = events ?? [];
    const { firstWorkflowTaskBackoff: delay } =
      started?.workflowExecutionStartedEventAttributes ?? {};
    const orders = (events ?? []).filter(
      (each) => each.workflowExecutionUpdateAcceptedEventAttributes,
    );
    runs.push({
      orders: orders.length,
      delayMs: Number(delay?.seconds ?? 0) * 1_000 + Number(delay?.nanos ?? 0) / 1e6,
    });
    runId =
      events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ??
      undefined;
  }
  return runs;
}

describe("a fleet", () => {
  it("puts junk with the dead letters and goes on granting", async () => {
    await fleet().signal("inbox", [null, 5, "x", { kind: "request" }, { kind: "end", jobId: 7 }]);
    await fleet().signal("inbox");
    await fleet().signal("inbox", { no: "list" });
    await fleet().signal(inboxSignal, [
      { kind: "request", request: { jobId: "big", filler: "x".repeat(100_000) } },
    ]);
    await expect(
      fleet().executeUpdate(configureUpdate, { args: [{ shape: 5 } as never] }),
    ).rejects.toThrow();
    await expect(
      fleet().executeUpdate(drainUpdate, { args: [undefined as never] }),
    ).rejects.toThrow();
    await rawSignal({ encoding: "binary/encrypted", data: "sealed" });
    await rawSignal({ encoding: "json/plain", data: '[{"torn":' });
    await world.until(
      "the junk is with the dead letters",
      ({ deadLetters }) => deadLetters.reduce((sum, { times = 1 }) => sum + times, 0) === 10,
    );
    const { jobId } = await world.orbweaver.submit(sleeper(0));
    expect(await world.temporal.workflow.getHandle(jobId).result()).toMatchObject({ attempts: 1 });
  });

  it("takes orders without a pause, each once, and the server delays none of its runs", async () => {
    const { runId: first } = await fleet().describe();
    const hosts = ["alpha/a1"];
    for (let at = 0; at < ORDERS; at += 1)
      await (at % 2 === 0
        ? world.orbweaver.drain(hosts, `order ${String(at)}`)
        : world.orbweaver.undrain(hosts));
    const { jobId } = await world.orbweaver.submit(sleeper(0));
    await world.temporal.workflow.getHandle(jobId).result();
    const runs = await runsSince(first);
    expect(runs.length).toBeGreaterThan(0);
    expect(runs.reduce((sum, { orders }) => sum + orders, 0)).toBe(ORDERS);
    expect(runs.filter(({ delayMs }) => delayMs > 0)).toEqual([]);
  });

  it("grants the other GPUs of a host while one is drained, and that one again after", async () => {
    const gpus = [{ host: parseHostId("alpha/a1"), mask: 0b10 }];
    const whole = { ...sleeper(0), constraints: { hosts: ["alpha/a1"], sameHost: true } };
    await world.orbweaver.drainGpus({ hosts: ["alpha/a1"], gpus: [1] }, "ECC errors");
    await expect(
      fleet().executeUpdate(drainGpusUpdate, { args: [{ gpus, reason: "again", isNew: true }] }),
    ).rejects.toThrow();
    await expect(
      fleet().executeUpdate(undrainGpusUpdate, { args: [{ gpus, of: "GPU fault" }] }),
    ).rejects.toThrow();
    await expect(
      world.orbweaver.drainGpus({ hosts: ["alpha/a1"], gpus: [29] }, "none there"),
    ).rejects.toThrow("no GPU 29");
    const { jobId: waiting } = await world.orbweaver.submit(whole);
    const seen = await world.until("it waits for the GPU", ({ reasons }) => reasons.has(waiting));
    expect(seen.reasons.get(waiting)).toMatchObject({
      code: "WaitingForHosts",
      numbers: { needGpus: 4, largestIdleGpus: 3, gpuDrainedHosts: 1 },
    });
    expect(seen.hosts.get(parseHostId("alpha/a1"))?.gpuDrains).toMatchObject([
      { mask: 0b10, reason: "ECC errors" },
    ]);
    const { jobId: smaller } = await world.orbweaver.submit({ ...whole, gang: { gpus: 3 } });
    const run = await world.temporal.workflow.getHandle(smaller).result();
    expect(run).toMatchObject({ attempts: 1 });
    await fleet().executeUpdate(undrainGpusUpdate, { args: [{ gpus, of: "ECC" }] });
    expect(await world.temporal.workflow.getHandle(waiting).result()).toMatchObject({
      attempts: 1,
    });
    expect((await world.ledger()).hosts.get(parseHostId("alpha/a1"))?.gpuDrains).toBeUndefined();
  });

  it("continues as new with its leases, its queue and its tokens", async () => {
    const running = await Promise.all([1, 2, 3].map(() => world.orbweaver.submit(sleeper(600))));
    await world.until("three run", (ledger) => ledger.leases.size === 3);
    const waiting = await world.orbweaver.submit(sleeper(0));
    const before = await world.until("one waits", (ledger) => ledger.requests.size === 1);
    const { runId } = await fleet().describe();
    const deadline = Date.now() + PATIENCE_MS;
    while ((await fleet().describe()).runId === runId) {
      expect(Date.now()).toBeLessThan(deadline);
      await Promise.all(Array.from({ length: 10 }, () => fleet().signal(inboxSignal, ["noise"])));
    }
    const after = await world.ledger();
    expect([...after.leases.keys()]).toEqual([...before.leases.keys()]);
    expect([...after.requests.keys()]).toEqual([waiting.jobId]);
    expect(after.nextToken).toBe(before.nextToken);
    await Promise.all(
      running.map(({ jobId }) => world.temporal.workflow.getHandle(jobId).cancel()),
    );
    expect(await world.temporal.workflow.getHandle(waiting.jobId).result()).toMatchObject({
      attempts: 1,
    });
  });
});
