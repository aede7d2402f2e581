/** @file Rewards of a run on their way to the tuner, the policy that comes back, and the plugin that all hosts must have. */

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { reportCollectives } from "../../agent/telemetry/collectives-report.ts";
import { extrasDir } from "../../agent/folder/extra-files.ts";
import { ncclFile, readNcclPlugins } from "../../agent/folder/nccl-file.ts";
import { findTunerPlugin } from "../../agent/runs/tuner-plugin.ts";
import type { RunHeartbeat } from "../../protocol/agent-contract.ts";
import { readRewards, rewardsIn } from "../../agent/folder/rewards-file.ts";
import {
  ORDER_FILE,
  POLICY_FILE,
  POLICY_VARIABLE,
  REWARDS_FILE,
  REWARDS_VARIABLE,
  type AskTuner,
} from "../../protocol/collective-files.ts";
import { NO_POLICY } from "../../domain/bandwidth/collective-evidence.ts";
import { token } from "../../domain/values/ids.ts";
import { crc32Text } from "../../lib/crc32.ts";
import {
  folder,
  gangOf,
  HOST,
  orderOf,
  OTHER_HOST,
  outputOf,
  removeFolders,
  testAgent,
} from "./fixture.ts";

afterEach(removeFolders);

const line = (step: number, arm = "tree/simple"): string =>
  `step ${String(step)} version 2 eu-1/2x4 allreduce 1048576 16777215 ${arm} calls 3 micros 120500\n`;
const fileOf = (...lines: readonly string[]): string => {
  const body = `orbweaver-rewards 1\n${lines.join("")}`;
  return `${body}end ${crc32Text(body)}\n`;
};

describe("the file of rewards", () => {
  it("is read line by line", () => {
    expect(rewardsIn(fileOf(line(7), line(8, "mixed")))).toEqual([
      {
        step: 7,
        version: 2,
        collective: "allreduce",
        minBytes: 1048576,
        maxBytes: 16777215,
        arm: "tree/simple",
        calls: 3,
        micros: 120500,
      },
      expect.objectContaining({ step: 8, arm: "mixed" }),
    ]);
  });

  it("says what the collectives took on the slowest rank, where that is known", () => {
    const timed = line(7).replace("\n", " slowest 18400\n");
    expect(rewardsIn(fileOf(timed, line(8)))?.map(({ slowestMicros }) => slowestMicros)).toEqual([
      18400,
      undefined,
    ]);
  });

  it("says nothing when it is torn, wherever it is cut", () => {
    const whole = fileOf(line(1), line(2));
    for (let cut = 0; cut < whole.length; cut += 1)
      expect(rewardsIn(whole.slice(0, cut))).toBeUndefined();
  });

  it("has lines that are not ours left out", () => {
    expect(rewardsIn(fileOf("rubbish\n", line(1, "warp/drive"), line(2)))).toMatchObject([
      { step: 2 },
    ]);
  });

  it("is not read again until it changes, and not at all when it is a folder", () => {
    const dir = folder();
    const file = path.join(dir, "r");
    writeFileSync(file, fileOf(line(1)));
    const first = readRewards(nodeSystem.files, file, undefined);
    expect(first?.rewards).toHaveLength(1);
    expect(readRewards(nodeSystem.files, file, first?.seen)).toBeUndefined();
    expect(readRewards(nodeSystem.files, dir, undefined)).toBeUndefined();
    expect(readRewards(nodeSystem.files, path.join(dir, "none"), undefined)).toBeUndefined();
  });
});

const TUNED = {
  env: { [POLICY_VARIABLE]: `{files}/${POLICY_FILE}` },
  files: [
    { name: POLICY_FILE, text: "old" },
    {
      name: ORDER_FILE,
      text: JSON.stringify({
        fleet: "default",
        topology: {
          ...{ cluster: "eu-1", name: "1x1-A100", nodes: 1, ranks: 1 },
          ...{ hasNvlink: false, hasNvlinkSharp: false },
        },
        hasOverlap: true,
      }),
    },
  ],
};

describe("what NCCL has loaded of the plugin", () => {
  const textOf = (tuner: string, profiler: string): string =>
    `orbweaver-nccl 1\ntuner ${tuner}\nprofiler ${profiler}\n`;
  it.each([
    { name: "both", text: textOf("yes", "yes"), want: "both" },
    { name: "the tuner alone", text: textOf("yes", "no"), want: "tuner" },
    { name: "nothing", text: textOf("no", "no"), want: "none" },
    { name: "a text that is cut off", text: textOf("no", "no").slice(0, -1), want: undefined },
    { name: "a word that is none of ours", text: textOf("perhaps", "no"), want: undefined },
    { name: "a text without an end", text: textOf("no", "no").repeat(9), want: undefined },
  ])("is read: $name", ({ text, want }) => {
    const dir = folder();
    mkdirSync(extrasDir(dir), { recursive: true });
    expect(readNcclPlugins(nodeSystem.files, dir)).toBeUndefined();
    writeFileSync(ncclFile(dir), text);
    expect(readNcclPlugins(nodeSystem.files, dir)).toBe(want);
  });

  it("comes with the report of a run", async () => {
    const lines = "printf 'orbweaver-nccl 1\\ntuner no\\nprofiler no\\n'";
    const launchExtras = {
      ...TUNED,
      env: { ...TUNED.env, [REWARDS_VARIABLE]: `{files}/${REWARDS_FILE}` },
    };
    const order = orderOf(`${lines} > "$${REWARDS_VARIABLE}.nccl"`, { launchExtras });
    const report = await testAgent().runs.run(order);
    expect(report).toMatchObject({ end: "completed", ncclPlugins: "none" });
  });
});

describe("a run that has ended", () => {
  it("has told the tuner each of its steps once, and lies beside the policy that came back", async () => {
    const agent = testAgent();
    const order = orderOf("true", { launchExtras: TUNED });
    const dir = extrasDir(agent.filesOf(order).dir);
    mkdirSync(dir, { recursive: true });
    writeFileSync(path.join(dir, REWARDS_FILE), fileOf(line(1), line(2)));
    // What a job may do to the agent that writes beside it.
    const bystander = path.join(folder(), "bystander");
    writeFileSync(bystander, "not the job's");
    symlinkSync(bystander, path.join(dir, `${POLICY_FILE}.new`));
    const heard: number[] = [];
    let failures = 1;
    const ask: AskTuner<AbortSignal> = (to, { rewards }) => {
      if (failures-- > 0) return Promise.reject(new Error("nobody hears"));
      expect(to).toMatchObject({ topology: { name: "1x1-A100" }, hasOverlap: true });
      heard.push(...rewards.map(({ step }) => step));
      return Promise.resolve({ ...NO_POLICY, version: 3, text: "new" });
    };
    const closing = new AbortController();
    const reports = reportCollectives({
      hosts: [agent.host],
      ask,
      closing: closing.signal,
      system: { ...nodeSystem, clock: { ...nodeSystem.clock, nowMs: () => 0 } },
      everyMs: 60_000,
    });
    await reports.ended(order);
    expect(heard).toEqual([]);
    await reports.ended(order);
    expect(heard).toEqual([1, 2]);
    expect(readFileSync(path.join(dir, POLICY_FILE), "utf8")).toBe("new");
    expect(readFileSync(bystander, "utf8")).toBe("not the job's");
    closing.abort();
    await reports.done;
  });
});

it.each([
  "no JSON {",
  "null",
  '"text"',
  '{ "fleet": "default" }',
  '{ "fleet": 1, "topology": [] }',
])("a run whose order file is %s asks no tuner, and its agent goes on", async (text) => {
  const agent = testAgent();
  const order = orderOf("true", {
    launchExtras: { env: {}, files: [{ name: ORDER_FILE, text }] },
  });
  const dir = extrasDir(agent.filesOf(order).dir);
  mkdirSync(dir, { recursive: true });
  writeFileSync(path.join(dir, REWARDS_FILE), fileOf(line(1)));
  const closing = new AbortController();
  let asked = 0;
  const reports = reportCollectives({
    hosts: [agent.host],
    ask: () => Promise.resolve({ ...NO_POLICY, version: (asked += 1), text: "new" }),
    closing: closing.signal,
    system: nodeSystem,
    everyMs: 60_000,
  });
  await reports.ended(order);
  expect(asked).toBe(0);
  closing.abort();
  await reports.done;
});

describe("the plugin", () => {
  const SHOW = 'echo "plugin=$NCCL_TUNER_PLUGIN profiler=$NCCL_PROFILER_PLUGIN"';
  const GANG = [
    { host: OTHER_HOST, mask: 1, address: "10.0.0.2" },
    { host: HOST, mask: 1, address: "10.0.0.1" },
  ];
  const pluginIn = (): { readonly file: string; readonly digest: string } => {
    const file = path.join(folder(), "tuner.so");
    writeFileSync(file, "a library");
    const digest = createHash("sha256").update("a library").digest("hex").slice(0, 32);
    return { file, digest };
  };
  const started = async (tuner: string | undefined, launchExtras: typeof TUNED | undefined) => {
    const { file } = pluginIn();
    const beat: RunHeartbeat = {
      phase: "running",
      host: OTHER_HOST,
      token: token(5),
      masterPort: 1_234,
      ...(tuner !== undefined && { tuner }),
    };
    const agent = testAgent({
      env: { ORBWEAVER_TUNER_PLUGIN: file },
      gang: gangOf(() => ({ isClosed: false, beats: [beat] })),
    });
    const order = orderOf(SHOW, {
      gang: GANG,
      ...(launchExtras !== undefined && { launchExtras }),
    });
    await agent.runs.run(order);
    return { agent, file, said: await outputOf(agent, order, 1) };
  };

  it("is found where the agent's environment says, with the digest of its content", () => {
    const { file, digest } = pluginIn();
    expect(findTunerPlugin({ ORBWEAVER_TUNER_PLUGIN: file }, nodeSystem.files)).toEqual({
      path: file,
      digest,
    });
    expect(
      findTunerPlugin({ ORBWEAVER_TUNER_PLUGIN: `${file}.none` }, nodeSystem.files),
    ).toBeUndefined();
  });

  it("is named to the processes where every host of the gang has the same, and each host says so", async () => {
    const { digest } = pluginIn();
    const { agent, file, said } = await started(digest, TUNED);
    expect(said).toBe(`plugin=${file} profiler=${file}\n`);
    expect(agent.task.beats[0]).toMatchObject({ phase: "prepared", tuner: digest });
  });

  it.each([
    { name: "another host has none", tuner: undefined, launchExtras: TUNED },
    { name: "another host has another build", tuner: "0123", launchExtras: TUNED },
    { name: "the job does not ask for it", tuner: pluginIn().digest, launchExtras: undefined },
  ])("is named to nobody where $name", async ({ tuner, launchExtras }) => {
    expect((await started(tuner, launchExtras)).said).toBe("plugin= profiler=\n");
  });
});
