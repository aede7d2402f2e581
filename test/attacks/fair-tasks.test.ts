/** @file Workflow tasks are shared fairly by tenant: behind another's backlog, a job's first task is among the first that a worker takes. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { callMany } from "../../bench/floods/flood.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

const BACKLOG = 200;
/** Tasks that a worker takes at a time, and a few. */
const MOST_BEFORE = 60;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

const submit = (key: string, tenant: string): Promise<unknown> =>
  world.orbweaver.submit(
    { name: "small", tenant, gang: { gpus: 1 }, hold: true, run: { command: ["true"] } },
    { idempotencyKey: `${world.fleet}-${key}` },
  );

/** When a worker took the job's first task, by the server's clock. */
async function firstTaskMs(key: string): Promise<number> {
  for (;;) {
    const { history } = await world.temporal.workflowService.getWorkflowExecutionHistory({
      namespace: world.temporal.options.namespace,
      execution: { workflowId: `${world.fleet}-${key}` },
    });
    const time = history?.events?.[2]?.eventTime;
    if (time) return Number(time.seconds) * 1_000 + (time.nanos ?? 0) / 1e6;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

it("takes the one job of a tenant before most of the 200 jobs that another has submitted earlier", async () => {
  await world.kill("jobs");
  await callMany({ count: BACKLOG, inFlight: 20 }, (index) => submit(`many-${index}`, "many"));
  await submit("one", "one");
  await world.start("jobs", ["worker", "--role", "jobs"]);
  const oneAtMs = await firstTaskMs("one");
  const manyAtMs: number[] = [];
  for (let index = 0; index < BACKLOG; index += 1) {
    manyAtMs.push(await firstTaskMs(`many-${index}`));
  }
  expect(manyAtMs.filter((atMs) => atMs < oneAtMs).length).toBeLessThan(MOST_BEFORE);
});
