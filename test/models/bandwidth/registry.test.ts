/** @file The registry of model versions: whole or not at all, the last good one remains, wherever a writer dies. */
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  modelDirOf,
  openRegistry,
  realDisk,
  type DiskSteps,
  type ModelDraft,
  type ModelRegistry,
} from "../../../models/bandwidth/registry.ts";

let dir = "";
beforeEach(async () => {
  dir = path.join(await mkdtemp(path.join(tmpdir(), "orbweaver-registry-")), "eu");
});
afterEach(() => rm(path.dirname(dir), { recursive: true, force: true }));

const draft = (order: string, { holds = true, reason = "better" } = {}): ModelDraft => ({
  fleet: "default",
  cluster: "eu",
  createdAtMs: 1_000,
  seed: 1,
  samples: { count: 30, hash: "h" },
  metrics: { loss: 0.01 },
  holdout: { own: { mape: 0.05, samples: 6 }, plain: { mape: 0.2, samples: 6 } },
  gate: { holds, reason },
  hosts: [{ id: "eu/h0", gpuCount: 8, gpuType: "H100" }],
  learner: "stand-in",
  order,
});
const FILES = new Map([
  ["parameters.bin", new Uint8Array([1, 2, 3])],
  ["infer.onnx", new Uint8Array([4])],
]);

async function withTwo(): Promise<ModelRegistry> {
  const registry = openRegistry(dir);
  for (const order of ["a", "b"]) {
    const { version } = await registry.add(draft(order), FILES);
    await registry.publish({ version, order: `p-${order}`, nowMs: 2_000 });
  }
  return registry;
}

describe("versions", () => {
  test("get numbers that grow, keep what they were given, and come back from disk as they were", async () => {
    await withTwo();
    const registry = openRegistry(dir);
    const all = await registry.list();
    expect(all.map(({ version, order }) => [version, order])).toEqual([
      ["v1", "a"],
      ["v2", "b"],
    ]);
    const [first] = all;
    expect(first).toMatchObject(draft("a"));
    expect(first && (await registry.files(first))).toEqual(
      new Map([...FILES].map(([name, bytes]) => [name, Buffer.from(bytes)])),
    );
  });

  test("an order done twice makes one version and is published once", async () => {
    const registry = await withTwo();
    expect((await registry.add(draft("b"), FILES)).version).toBe("v2");
    const again = await registry.publish({ version: "v2", order: "p-b", nowMs: 9_000 });
    expect(again).toMatchObject({ generation: 2, publishedAtMs: 2_000, former: ["v1"] });
  });

  test("two writers at once get two numbers", async () => {
    const made = await Promise.all(
      ["a", "b", "c"].map((order) => openRegistry(dir).add(draft(order), FILES)),
    );
    expect(made.map(({ version }) => version).sort()).toEqual(["v1", "v2", "v3"]);
  });
});

describe("serving", () => {
  test("a version whose gate does not hold cannot serve, and what serves stays", async () => {
    const registry = await withTwo();
    const { version } = await registry.add(draft("c", { holds: false, reason: "worse" }), FILES);
    await expect(registry.publish({ version, order: "p-c", nowMs: 0 })).rejects.toThrow(
      /v3 did not pass its gate and cannot serve: worse/,
    );
    expect((await registry.serving())?.version).toBe("v2");
  });

  test.each([
    { name: "one that is not there", version: "v9", want: /no version v9/ },
    { name: "one with a name that leads elsewhere", version: "../v1", want: /no version/ },
  ])("$name cannot serve", async ({ version, want }) => {
    const registry = await withTwo();
    await expect(registry.publish({ version, order: "x", nowMs: 0 })).rejects.toThrow(want);
  });

  test("a damaged version cannot serve, and is refused when it is read", async () => {
    const registry = await withTwo();
    await writeFile(path.join(dir, "v1", "parameters.bin"), "junk");
    await expect(registry.publish({ version: "v1", order: "x", nowMs: 0 })).rejects.toThrow(
      /parameters\.bin is damaged: v1 .* model rollback/,
    );
  });

  test("a rollback is a publication of its own, with the other one behind it", async () => {
    const registry = await withTwo();
    const note = await registry.publish({ version: "v1", order: "back", nowMs: 0 });
    expect(note).toMatchObject({ version: "v1", generation: 3, former: ["v2"] });
  });

  test("what serves and what served last is never discarded", async () => {
    const registry = await withTwo();
    for (const order of ["c", "d", "e"]) await registry.add(draft(order, { holds: false }), FILES);
    expect(await registry.discard({ keepNewest: 1, nowMs: 0 })).toEqual(["v3", "v4"]);
    expect((await registry.list()).map(({ version }) => version)).toEqual(["v1", "v2", "v5"]);
  });
});

/** Stops the writer, as a crash would, before or after its n-th step on the disk. */
function dyingAt(step: number, isDone: boolean): { disk: DiskSteps; steps: () => number } {
  let count = 0;
  const wrap =
    <Args extends readonly unknown[]>(run: (...args: Args) => Promise<void>) =>
    async (...args: Args): Promise<void> => {
      const isLast = count === step;
      count += 1;
      if (isLast && isDone) await run(...args);
      if (isLast) throw new Error("the machine is gone");
      await run(...args);
    };
  return {
    steps: () => count,
    disk: {
      makeFolder: wrap(realDisk.makeFolder),
      write: wrap(realDisk.write),
      rename: wrap(realDisk.rename),
      syncFolder: wrap(realDisk.syncFolder),
      remove: wrap(realDisk.remove),
    },
  };
}

describe("a writer that dies at any step", () => {
  const next = async (registry: ModelRegistry): Promise<void> => {
    const { version } = await registry.add(draft("c"), FILES);
    await registry.publish({ version, order: "p-c", nowMs: 3_000 });
    await registry.discard({ keepNewest: 1, nowMs: 3_000 });
  };

  test.each([
    { name: "before the step is done", isDone: false },
    { name: "after it", isDone: true },
  ])("leaves a version that serves, $name; done again, it ends alike", async ({ isDone }) => {
    let step = 0;
    for (; ; step += 1) {
      await withTwo();
      const { disk, steps } = dyingAt(step, isDone);
      const end = await next(openRegistry(dir, disk)).catch(() => "died" as const);
      const found = openRegistry(dir);
      const serving = await found.serving();
      expect(["v2", "v3"]).toContain(serving?.version);
      const manifest = await found.manifest(serving?.version ?? "");
      expect(manifest?.gate.holds).toBe(true);
      expect(manifest && (await found.files(manifest)).size).toBe(2);
      await next(found);
      expect((await found.serving())?.version).toBe("v3");
      expect(await found.serving()).toMatchObject({ generation: 3, former: ["v1", "v2"] });
      const left = (await readdir(dir)).filter((name) => !name.startsWith("."));
      expect(left.sort()).toEqual(["serving.json", "v1", "v2", "v3"]);
      await rm(dir, { recursive: true, force: true });
      if (end !== "died") {
        expect(steps()).toBeLessThanOrEqual(step);
        break;
      }
    }
    expect(step).toBeGreaterThan(8);
  });

  test("leaves nothing that is still there an hour later", async () => {
    await withTwo();
    await next(openRegistry(dir, dyingAt(2, true).disk)).catch(() => undefined);
    const asides = async (): Promise<number> =>
      (await readdir(dir)).filter((name) => name.startsWith(".")).length;
    expect(await asides()).toBe(1);
    await openRegistry(dir).discard({ keepNewest: 9, nowMs: Date.now() + 3_700_000 });
    expect(await asides()).toBe(0);
  });
});

test.each([
  { name: "..", want: "%2E%2E" },
  { name: "a/b", want: "a%2Fb" },
])("the cluster $name has a folder of its own", ({ name, want }) => {
  expect(modelDirOf("/s", name)).toBe(path.join("/s", "models", want));
});
