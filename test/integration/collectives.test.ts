/** @file Collectives on a real server: a job explores, its tuner learns, the next one starts with what was learned, and one that is moved with what holds there. */

import { writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openCollectives } from "../../client/collectives.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";

const FLEET = `
name: tuned
policy: { reserve: 0 }
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    hosts:
      - { name: "a[1-2]", gpus: 2, type: A100 }
  - name: beta
    site: there
    jurisdiction: EU
    simulated: true
    hosts:
      - { name: "b[1-2]", gpus: 2, type: A100 }
`;
const PLACE = "alpha/2x2-A100";
const ROW = "allreduce 16777216 134217727";

/** Stands for NCCL with the plugin: goes through the schedule of the row and writes what steps and collectives took, until nothing is to be explored. */
const STAND_IN = `
import { readFileSync, renameSync, writeFileSync } from "node:fs";
const { RANK, ORBWEAVER_COLLECTIVES_POLICY: policy, ORBWEAVER_COLLECTIVES_REWARDS: rewards } = process.env;
if (RANK !== "0") process.exit(0);
const crc = (text) => {
  let value = 0xffffffff;
  for (const byte of Buffer.from(text)) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit += 1) value = (value >>> 1) ^ (0xedb88320 & -(value & 1));
  }
  return ((value ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0");
};
// Of a step; the collectives are 80 of it under NCCL's own choice.
const millis = { "tree/simple": 990, "ring/simple": 1020, auto: 1000 };
let [done, step, lines] = [0, 0, ""];
const turn = () => {
  const text = readFileSync(policy, "utf8");
  const version = Number(/^version (\\d+)$/m.exec(text)[1]);
  const row = /^${ROW} (\\S+)(?: explore \\d+ (.*))?$/m.exec(text);
  if (row[2] === undefined) process.exit(row[1] === "tree/simple" ? 0 : 3);
  if (version > done) {
    done = version;
    for (const run of row[2].split(" ")) {
      const [arm, count] = run.split("*");
      for (let i = 0; i < Number(count); i += 1)
        lines += \`step \${++step} version \${version} t ${ROW} \${arm} calls 1 micros \${millis[arm] * 1000 + step} slowest \${(millis[arm] - 920) * 1000 + step}\\n\`;
    }
    const body = "orbweaver-rewards 1\\n" + lines;
    writeFileSync(rewards + ".tmp", body + "end " + crc(body) + "\\n");
    renameSync(rewards + ".tmp", rewards);
  }
  setTimeout(turn, 20);
};
turn();
`;

let world: World;
let script: string;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
  script = path.join(world.stateDir, "stand-in.mjs");
  writeFileSync(script, STAND_IN);
  await world.start("solver", ["worker", "--role", "solver"]);
});
afterAll(async () => {
  for await (const { workflowId } of world.temporal.workflow.list({
    query: `WorkflowType = "collective-tuner" AND ExecutionStatus = "Running"`,
  })) {
    if (workflowId.includes(world.fleet))
      await world.temporal.workflow.getHandle(workflowId).terminate("end of test");
  }
  await world.stop();
});

const tunedJob = (name: string, command: readonly string[]) => ({
  name,
  gang: { gpus: 4 },
  constraints: { clusters: ["alpha"] },
  collectives: { tune: true },
  run: { command: [...command], grace: "1s" },
});

it("a job explores and ends on the better arm, which its tuner then has for all", async () => {
  const { jobId: id } = await world.orbweaver.submit(
    tunedJob("explorer", [process.execPath, script]),
  );
  await world.orbweaver.job(id).result();
  const { attempts } = await world.orbweaver.job(id).view();
  expect(attempts[0]?.launchExtras).toMatchObject([{ part: "collectives", kind: "done" }]);
  const view = await openCollectives(world.temporal, world.fleet).view(PLACE);
  expect(view.worlds[0]?.policy.text).toContain(`${ROW} tree/simple\n`);
});

it("the next job there starts with it, sealed and as a file, and names the hosts whose NCCL loads no tuner", async () => {
  const check = `grep -q '^${ROW} tree/simple$' "$ORBWEAVER_COLLECTIVES_POLICY" && case "$ORBWEAVER_COLLECTIVES_SEALED" in *';${ROW} tree/simple;'*) ;; *) exit 4;; esac`;
  // As the plugin's library does where NCCL has not asked it.
  const note = `printf 'orbweaver-nccl 1\\ntuner no\\nprofiler no\\n' > "$ORBWEAVER_COLLECTIVES_REWARDS.nccl"`;
  const { jobId: id } = await world.orbweaver.submit(
    tunedJob("next", ["sh", "-c", `${note}; ${check}`]),
  );
  await world.orbweaver.job(id).result();
  const { attempts } = await world.orbweaver.job(id).view();
  expect(attempts.at(-1)?.ncclPlugins).toEqual([
    { host: "alpha/a1", plugins: "none" },
    { host: "alpha/a2", plugins: "none" },
  ]);
  const { stdout } = await world.cli(["status", id]);
  expect(stdout).toMatch(/NCCL +loads no tuner on alpha\/a1, alpha\/a2/);
});

it("a job that is preempted and goes on elsewhere has the policy of its new place, not the old one's", async () => {
  const line =
    'grep -q "^topology alpha/" "$ORBWEAVER_COLLECTIVES_POLICY" && exec sleep 300; grep -q "^topology beta/" "$ORBWEAVER_COLLECTIVES_POLICY"';
  const holding = (name: string, cluster: string) => ({
    name,
    class: "inference" as const,
    gang: { gpus: 4 },
    constraints: { clusters: [cluster] },
    run: { command: ["sleep", "300"], grace: "0s" },
  });
  const runningOf = async (id: string): Promise<string | undefined> => {
    const last = (await world.orbweaver.job(id).view()).attempts.at(-1);
    return last?.gpus[0]?.host;
  };
  const blocker = (await world.orbweaver.submit(holding("blocker", "beta"))).jobId;
  await expect.poll(() => runningOf(blocker)).toMatch(/^beta\//);
  const { jobId: id } = await world.orbweaver.submit({
    ...tunedJob("moved", ["sh", "-c", line]),
    constraints: { clusters: ["alpha", "beta"] },
    preemption: { minRuntime: "0s" },
  });
  const moved = world.orbweaver.job(id);
  await expect.poll(() => runningOf(id)).toMatch(/^alpha\//);
  await world.orbweaver.job(blocker).cancel();
  const urgent = (await world.orbweaver.submit(holding("urgent", "alpha"))).jobId;
  await moved.result();
  await world.orbweaver.job(urgent).cancel();
  const { attempts } = await moved.view();
  expect(attempts.at(-1)?.gpus[0]?.host).toMatch(/^beta\//);
  expect(attempts.at(-1)?.launchExtras?.[0]?.message).toContain("2x2-A100 in beta");
});

it("the commands say why, and forget it", async () => {
  const shown = await world.cli(["collectives", "explain", PLACE]);
  expect(shown.code).toBe(0);
  // What steps took, and the collectives in them.
  expect(shown.stdout).toMatch(/tree\/simple +\d+ +990\.\d ms +70\.\d ms/);
  const { stdout } = await world.cli(["collectives", "reset", PLACE, "--json"]);
  expect(JSON.parse(stdout)).toMatchObject({ heard: 0 });
});
