/** @file A service's requests while its replicas are preempted, moved, requeued and given back, and from cold: `bench serving` in its short form. */

import { expect, it } from "vitest";
import type { BenchRequest } from "../../bench/bench.ts";
import { coldRequests } from "../../bench/serving/cold.ts";
import { upsets, UPSETS } from "../../bench/serving/upsets.ts";

const requestOf = (sizes: Readonly<Record<string, number>>): BenchRequest => ({
  seed: 7,
  size: (name) => sizes[name] ?? NaN,
  // A server of its own: workers of another fleet would serve its jobs.
  text: () => undefined,
  flag: () => false,
  chosen: () => [],
  say: () => undefined,
  interrupted: new AbortController().signal,
  env: process.env,
});

it("loses no request over one upset of each kind, and every answer is the model's", async () => {
  const { bars } = await upsets(requestOf({ upsets: UPSETS.length }));
  const barOf = (name: string) => bars.find(({ id }) => id === name);
  expect(barOf("upsets-lost")).toMatchObject({ got: 0 });
  expect(barOf("upsets-done")).toMatchObject({ got: UPSETS.length });
  expect(barOf("upsets-answers")).toMatchObject({ holds: true });
});

it("answers cold requests as a process of onnxruntime does", async () => {
  const { bars } = await coldRequests(
    requestOf({ "cold-rounds": 2, "cold-blocks": 1, "cold-width": 32 }),
  );
  // Of a host that keeps weights, and of one that keeps none.
  expect(bars.find(({ id }) => id === "cold-answers")).toMatchObject({ got: 4, holds: true });
  expect(bars.find(({ id }) => id === "cold-where-kept")).toMatchObject({ holds: true });
});
