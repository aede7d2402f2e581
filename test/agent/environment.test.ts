import { describe, expect, it } from "vitest";
import { planRanks, type RankSurroundings } from "../../agent/runs/rank-environment.ts";
import { HOST, OTHER_HOST, orderOf } from "./fixture.ts";

const surroundings: RankSurroundings = {
  agentEnv: { PATH: "/bin", HOME: "/home/agent", TMPDIR: undefined, TEMPORAL_API_KEY: "secret" },
  launchDir: "/state/lease-5",
  owner: "0123456789abcdef",
  masterPort: 4_000,
  checkpointDir: "/ckpt",
  checkpoint: undefined,
};
/** Different counts; this host is second. */
const GANG = [
  { host: OTHER_HOST, mask: 0b0111, address: "10.0.0.2" },
  { host: HOST, mask: 0b1010, address: "10.0.0.1" },
];
const NAMES = [
  "RANK",
  "WORLD_SIZE",
  "LOCAL_RANK",
  "LOCAL_WORLD_SIZE",
  "NODE_RANK",
  "NNODES",
  "MASTER_ADDR",
  "MASTER_PORT",
  "CUDA_VISIBLE_DEVICES",
];
const shown = (env: Readonly<Record<string, string>>) => NAMES.map((name) => env[name]).join(" ");

describe("the environment of ranks", () => {
  it.each([
    {
      name: "per GPU",
      launch: "per-gpu" as const,
      want: ["3 5 0 2 1 2 10.0.0.2 4000 1,3", "4 5 1 2 1 2 10.0.0.2 4000 1,3"],
    },
    { name: "per host", launch: "per-host" as const, want: ["1 2 0 1 1 2 10.0.0.2 4000 1,3"] },
  ])(
    "of a gang over unequal hosts, launched $name, numbers ranks in gang order",
    ({ launch, want }) => {
      const ranks = planRanks(orderOf("", { gang: GANG, run: { launch } }), surroundings);
      expect(ranks.map(({ env }) => shown(env))).toEqual(want);
      expect(ranks.map(({ rank, env }) => String(rank) === env["RANK"])).not.toContain(false);
    },
  );

  it("names GPUs by their ids where the machine says all of them, and always says their places", () => {
    const gpus = [0, 1, 2, 3].map((index) => ({
      ...{ index, uuid: `GPU-${"abcd"[index] ?? ""}`, nodes: [], devices: [] },
    }));
    const namedBy = (shown: typeof gpus) => {
      const [first] = planRanks(orderOf("", { gang: GANG }), { ...surroundings, gpus: shown });
      return [first?.env["CUDA_VISIBLE_DEVICES"], first?.env["ORBWEAVER_GPU_INDICES"]];
    };
    expect(namedBy(gpus)).toEqual(["GPU-b,GPU-d", "1,3"]);
    expect(namedBy(gpus.slice(0, 3))).toEqual(["1,3", "1,3"]);
  });

  it("has what was made for the run, below the job's own word", () => {
    const [first] = planRanks(
      orderOf("", {
        run: { env: { NCCL_ALGO: "Ring" } },
        launchExtras: { env: { PLAN: "{files}/plan.json", NCCL_ALGO: "Tree" }, files: [] },
      }),
      surroundings,
    );
    expect(first?.env).toMatchObject({ PLAN: "/state/lease-5/given/plan.json", NCCL_ALGO: "Ring" });
  });

  it.each([
    { said: "cuda", own: "cpu", want: "cuda" },
    { said: undefined, own: "cpu", want: "" },
    { said: "cpu", own: undefined, want: "cpu" },
    { said: undefined, own: undefined, want: undefined },
    { said: "abacus", own: "cpu", want: "" },
  ])(
    "lets the fleet alone say what runs a served model: $said, whatever the job does: $own",
    ({ said, own, want }) => {
      const name = "ORBWEAVER_SERVING_DEVICES";
      const [first] = planRanks(
        orderOf("", {
          run: { env: own === undefined ? {} : { [name]: own } },
          launchExtras: {
            env: {},
            files: said === undefined ? [] : [{ name: "serving-devices", text: said }],
          },
        }),
        surroundings,
      );
      expect(first?.env[name]).toBe(want);
    },
  );

  it("gives torchrun its options", () => {
    const [only] = planRanks(
      orderOf("", { gang: GANG, run: { launch: "per-host" } }),
      surroundings,
    );
    expect(only?.env).toMatchObject({
      NPROC_PER_NODE: "2",
      PET_NNODES: "2",
      PET_NODE_RANK: "1",
      PET_NPROC_PER_NODE: "2",
      PET_MASTER_ADDR: "10.0.0.2",
      PET_MASTER_PORT: "4000",
    });
  });

  it("meets on the loopback when the gang has one host", () => {
    const [only] = planRanks(orderOf(""), surroundings);
    expect(only?.env["MASTER_ADDR"]).toBe("127.0.0.1");
  });

  it("says who and where the process is", () => {
    const checkpoint = { path: "/ckpt/4/step-1", atMs: 1 };
    const [only] = planRanks(orderOf("", { gang: GANG, model: "gpt", batch: 64, attempt: 2 }), {
      ...surroundings,
      checkpoint,
    });
    expect(only?.env).toMatchObject({
      CUDA_DEVICE_ORDER: "PCI_BUS_ID",
      ORBWEAVER_JOB_ID: "job-7",
      ORBWEAVER_JOB_NAME: "toy",
      ORBWEAVER_LEASE_ID: "lease-5",
      ORBWEAVER_TOKEN: "5",
      ORBWEAVER_HOST: HOST,
      ORBWEAVER_GPUS: "5",
      ORBWEAVER_ATTEMPT: "2",
      ORBWEAVER_CHECKPOINT_DIR: "/ckpt",
      ORBWEAVER_CHECKPOINT: "/ckpt/4/step-1",
      ORBWEAVER_MODEL: "gpt",
      ORBWEAVER_GPUS_REQUESTED: "5",
      ORBWEAVER_BATCH: "64",
      ORBWEAVER_BATCH_REQUESTED: "64",
    });
  });

  it("has a batch in step with a gang that is smaller than the job asked for", () => {
    const [only] = planRanks(
      orderOf("", { gang: GANG, batch: 64, gpusRequested: 8 }),
      surroundings,
    );
    expect(only?.env).toMatchObject({
      ORBWEAVER_GPUS: "5",
      ORBWEAVER_GPUS_REQUESTED: "8",
      ORBWEAVER_BATCH: "40",
      ORBWEAVER_BATCH_REQUESTED: "64",
      WORLD_SIZE: "5",
    });
  });

  it("passes on little of the agent's own, which the job may replace, and lets nothing replace the lease's", () => {
    const env = {
      PATH: "/job/bin",
      NCCL_DEBUG: "INFO",
      CUDA_VISIBLE_DEVICES: "0,1,2,3,4,5,6,7",
      ORBWEAVER_LEASE_ID: "lease-1",
    };
    const [only] = planRanks(orderOf("", { run: { env } }), surroundings);
    expect(only?.env).toMatchObject({
      PATH: "/job/bin",
      HOME: "/home/agent",
      NCCL_DEBUG: "INFO",
      CUDA_VISIBLE_DEVICES: "0",
      ORBWEAVER_LEASE_ID: "lease-5",
    });
    expect(Object.keys(only?.env ?? {})).not.toContain("TEMPORAL_API_KEY");
    expect(Object.keys(only?.env ?? {})).not.toContain("TMPDIR");
  });
});
