/** @file Verbs of the bandwidth models: versions from the store, how a model stands, training and rollback by its workflow. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { clusterId, jobId, parseHostId } from "../../domain/values/ids.ts";
import { modelDirOf, openRegistry, type ModelDraft } from "../../models/bandwidth/registry.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import type { BandwidthModelView, TrainingNote } from "../../protocol/messages.ts";
import { run, type Outside, type Said } from "./run.ts";

const FLEET = `
clusters:
  - { name: eu, site: a, jurisdiction: EU, hosts: [{ name: "h[0-1]", gpus: 8, type: H100 }] }
  - { name: us, site: b, jurisdiction: US, hosts: [{ name: "g[0-1]", gpus: 8, type: H100 }] }
`;

const draft = (order: string, holds: boolean, mape: number): ModelDraft => ({
  fleet: "default",
  cluster: "eu",
  createdAtMs: 60_000,
  seed: 3,
  samples: { count: 48, hash: "0123456789abcdef" },
  metrics: { loss: 0.01 },
  holdout: { own: { mape, samples: 12 }, plain: { mape: 0.2, samples: 12 } },
  gate: { holds, reason: holds ? "2.0 % instead of 20.0 %" : "30.0 % instead of 2.0 %" },
  hosts: [{ id: "eu/h0", gpuCount: 8, gpuType: "H100" }],
  learner: "stand-in",
  order,
});

const VIEW: BandwidthModelView = {
  fleet: "default",
  cluster: "eu",
  serving: { version: "v1", generation: 1 },
  isHeld: true,
  samples: 61,
  fresh: 4,
  repeated: 2,
  unfit: 0,
  outliers: [
    {
      jobId: jobId("train-7"),
      gpus: [{ host: parseHostId("eu/h0"), mask: 1 }],
      gbs: 20,
      predictedGbs: 80,
      atMs: 0,
    },
  ],
  drift: { host: parseHostId("eu/h1"), ratio: 0.25, samples: 8, atMs: 0 },
};

let stateDir = "";
beforeAll(async () => {
  stateDir = await mkdtemp(join(tmpdir(), "orbweaver-models-"));
  const registry = openRegistry(modelDirOf(join(stateDir, "default", "store"), "eu"));
  const files = new Map([["parameters.f32", new Uint8Array([1, 2, 3, 4])]]);
  const { version } = await registry.add(draft("a", true, 0.02), files);
  await registry.publish({ version, order: "p", nowMs: 61_000 });
  await registry.add(draft("b", false, 0.3), files);
});
afterAll(() => rm(stateDir, { recursive: true, force: true }));

/** A fleet in whose first cluster v1 serves; its model's workflow answers with these. */
function outside(answers: { readonly note?: TrainingNote } = {}): Outside {
  const parsed = parseFleetYaml(FLEET, {
    file: "f",
    read: () => ({ kind: "missing", reason: "" }),
  });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  const ledger = {
    ...emptyLedger(parsed.fleet.shape),
    models: new Map([[clusterId("eu"), { version: "v1", generation: 1 }]]),
  };
  const handle = { query: () => Promise.resolve(VIEW) };
  const workflow = {
    getHandle: () => handle,
    startUpdateWithStart: (update: { readonly name: string }) =>
      Promise.resolve({
        result: () =>
          Promise.resolve(
            update.name === "train" ? answers.note : { version: "v1", generation: 2 },
          ),
      }),
  };
  const withDeadline = (_: unknown, call: () => Promise<unknown>) => call();
  return {
    env: { ORBWEAVER_STATE_DIR: stateDir },
    client: { fleet: () => Promise.resolve(ledger) },
    temporal: { workflow, withDeadline, withAbortSignal: withDeadline },
    nowMs: 120_000,
    columns: 80,
  };
}

const model = (...words: readonly string[]): Promise<Said> => run(["model", ...words], outside());

describe("orbweaver model", () => {
  it("list: versions of the store with their error and gate, the one that serves marked", async () => {
    const { code, stdout } = await model("list");
    expect(code).toBe(0);
    expect(stdout).toMatch(/eu +v1\* .*48 +2\.0 % +passed/);
    expect(stdout).toMatch(/eu +v2 .*30\.0 % +refused/);
    expect(stdout).toMatch(/no version in the store of this machine: us/);
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    const { stdout: json } = await model("list", "eu", "--json");
    expect(JSON.parse(json)).toMatchObject({
      clusters: [{ cluster: "eu", serving: "v1", versions: [{ version: "v1" }, {}] }],
    });
  });

  it("show: what was measured, what drifts, what is left out; of a version, from what it was made", async () => {
    const { stdout } = await model("show", "eu");
    expect(stdout).toMatch(/serves +v1/);
    expect(stdout).toMatch(/61 measurements kept, 4 since the last training/);
    expect(stdout).toMatch(/eu\/h1 measures 25 % of what is expected/);
    expect(stdout).toMatch(/train-7: 20\.0 GB\/s, expected 80\.0/);
    expect(stdout).toMatch(/rolled back by hand/);
    const { stdout: version } = await model("show", "eu", "v2");
    expect(version).toMatch(/gate +refused: 30\.0 % instead of 2\.0 %/);
    expect(version).toMatch(/a plain guess 20\.0 %/);
  });

  it.each([
    { kind: "serves" as const, version: "v3", reason: "better", want: [0, "v3 serves: better\n"] },
    { kind: "refused" as const, version: "v3", reason: "worse", want: [1, "v3 refused: worse\n"] },
    { kind: "too-few" as const, reason: "2 of 8 sets", want: [1, "eu not trained: 2 of 8 sets\n"] },
  ])("train: exit status $want.0 when the new version is $kind", async ({ want, ...end }) => {
    const note: TrainingNote = { atMs: 0, cause: "command", ...end };
    const { code, stdout } = await run(["model", "train", "eu"], outside({ note }));
    expect([code, stdout]).toEqual(want);
  });

  it("rollback: says which version serves now", async () => {
    const { code, stdout } = await model("rollback", "eu", "--to", "v1");
    expect([code, stdout]).toEqual([0, "v1 serves in eu\n"]);
  });

  it.each([
    { words: ["list", "mars"], want: /no cluster mars/ },
    { words: ["show", "mars"], want: /no cluster mars/ },
    { words: ["train", "mars"], want: /no cluster mars/ },
    { words: ["rollback", "mars"], want: /no cluster mars/ },
    { words: ["evaluate", "mars"], want: /no cluster mars/ },
    { words: ["show", "eu", "v9"], want: /no version v9/ },
    { words: ["evaluate", "eu", "v9"], want: /no version v9/ },
    { words: ["evaluate", "us"], want: /no version serves in us yet/ },
  ])("$words: NOT_FOUND names what there is none of", async ({ words, want }) => {
    const { code, stderr } = await model(...words);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(want);
  });
});
