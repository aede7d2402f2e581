/** @file A solver worker improves one plan at a time: a second order gets no plan at once. */

import type { Client } from "@temporalio/client";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { createPolishActivities } from "../../../activities/launch-extras/polish.ts";
import { parseJobFile } from "../../../domain/job/job-file.ts";
import { jobId, parseHostId } from "../../../domain/values/ids.ts";
import type { PolishOrder } from "../../../protocol/launch-extras-contract.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-polish-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "m.onnx"), "not read before the fleet has answered");

function order(): PolishOrder {
  const run = { workdir: folder };
  const read = parseJobFile({ name: "s", class: "inference", model: "m.onnx", gang: 1, run });
  if (read.kind === "refused") throw new Error("refused");
  const gpus = [{ host: parseHostId("a/b"), mask: 1 }];
  return { fleetWorkflowId: "f", jobId: jobId("j"), spec: read.spec, gpus, limitMs: 1_000 };
}

it("improves one plan at a time, and the next one after it", async () => {
  const asked: ((shape: unknown) => void)[] = [];
  const query = (): Promise<unknown> => new Promise((resolve) => asked.push(resolve));
  const { polishPlan } = createPolishActivities({
    client: { workflow: { getHandle: () => ({ query }) } } as unknown as Client,
    storeDir: "/nowhere",
    beat: () => undefined,
    cancelled: () => new AbortController().signal,
  });
  const first = polishPlan(order());
  expect(await polishPlan(order())).toBeNull();
  expect(asked).toHaveLength(1);
  asked[0]?.({ clusters: [], links: [], tenants: [] });
  expect(await first).toBeNull();
  const next = polishPlan(order());
  asked[1]?.({ clusters: [], links: [], tenants: [] });
  expect(await next).toBeNull();
  expect(asked).toHaveLength(2);
});
