/**
 * @file A GPU of which the driver tells a fault, on a live fleet: it leaves the pool, the job on it goes on elsewhere, the one beside it stays, and jobs run on it
 * again when the fault has ended. The machine's driver is a stand-in, mounted for the fleet's processes alone. Skipped by name where there is no root.
 */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { NVML_VARIABLE } from "../../agent/system/gpu-driver.ts";
import { cliOf } from "../support/own-cli.ts";
import { kill, pidsWith } from "../support/processes.ts";
import { removeFolder } from "../support/remove-folder.ts";
import { canStandInDriver, standInDriver, type StandInDriver } from "../support/stand-in-driver.ts";
import { standInNvidiaSmi } from "../support/stand-in-nvidia-smi.ts";

const FLEET = "broken";
const DEVICE = "NVIDIA H100 80GB HBM3";
const MACHINE = `machine/${hostname()}`;
const FLEET_FILE = `name: ${FLEET}
clusters:
  - name: machine
    site: here
    jurisdiction: EU
    hosts:
      - { name: "${hostname()}", gpus: 2, type: H100 }
  - name: spare
    site: here
    jurisdiction: EU
    simulated: true
    hosts:
      - { name: s1, gpus: 1, type: H100 }
`;
const JOBS = ["one", "two"];
/** A rank of a gang whose checkpoint is complete when all ranks have written their part of it. */
const SAVING_RANK = `
run="$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN"
echo "run $ORBWEAVER_ATTEMPT rank $RANK from [$(basename "$ORBWEAVER_CHECKPOINT")]" >> "$1/began"
save() {
  touch "$run/part-$RANK.tmp"
  [ "$RANK" = 0 ] || return 0
  until [ -e "$run/part-0.tmp" ] && [ -e "$run/part-1.tmp" ] && [ -e "$run/part-2.tmp" ]; do sleep 0.1; done
  mkdir "$run/step"
}
trap save USR1
while :; do sleep 0.1; done
`;

/** A rank of an array's task: one that is stopped says so, and its peers, on whichever host, fail of that. Once `$1/go` is there, it ends well. */
const LEAVING_RANK = `
left="$1/left-$ORBWEAVER_TASK-$ORBWEAVER_TOKEN"
trap 'touch "$left"; exit 1' TERM
echo "$ORBWEAVER_TOKEN" >> "$1/ranks"
while ! [ -e "$1/go" ]; do
  [ -e "$left" ] && exit 3
  sleep 0.1
done
`;

let dir = "";
let driver: StandInDriver | undefined;
const cli = cliOf(FLEET, () => join(dir, "state"));
/** On the machine with the stand-in driver. */
const up = (...words: readonly string[]): Promise<string> =>
  cliOf(FLEET, () => join(dir, "state"), driver?.before)("up", "--always-on", ...words);

/** The driver counts uncorrected errors on these GPUs, and on no others. */
function errorsOn(...broken: readonly number[]): void {
  const gpus = [0, 1].map((at) => ({ device: DEVICE, uncorrected: broken.includes(at) ? 2 : 0 }));
  standInNvidiaSmi(join(dir, "bin"), { gpus });
}

const DRIVER_GPUS = [0, 1].map((at) => ({
  busId: `0000:${at + 1}8:00.0`,
  uuid: `GPU-0000000${at}-1111-2222-3333-444444444444`,
  minor: at,
}));

/** The machine shows these GPUs, and no others. */
function shows(...there: readonly number[]): void {
  standInNvidiaSmi(join(dir, "bin"), {
    gpus: there.map((number) => ({ device: DEVICE, number })),
  });
  driver?.show(DRIVER_GPUS.filter(({ minor }) => there.includes(minor)));
}

/** Of the machine's own host. */
const agentPid = (): number | undefined =>
  pidsWith(`ORBWEAVER_STATE_DIR=${join(dir, "state")}`).find((pid) =>
    readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("--role\0agent\0--cluster\0machine\0"),
  );
const shown = async <Shown>(...words: readonly string[]): Promise<Shown> =>
  JSON.parse(await cli(...words, "--json")) as Shown;

interface ShownHost {
  readonly id: string;
  readonly isDrained?: boolean;
  readonly gpuDrains?: readonly { readonly gpus: readonly number[]; readonly reason: string }[];
}

async function drained() {
  const { clusters } = await shown<{
    readonly clusters: readonly { readonly hosts: readonly ShownHost[] }[];
  }>("fleet", "show");
  return clusters
    .flatMap(({ hosts }) => hosts)
    .filter(({ isDrained, gpuDrains }) => isDrained === true || gpuDrains !== undefined)
    .map(({ id, isDrained, gpuDrains = [] }) => ({
      id,
      isDrained,
      gpus: gpuDrains.map(({ gpus, reason }) => ({ gpus, reason })),
    }));
}

/** Submits a gang of three ranks over both hosts. `script` gets the test's folder; `more` is YAML below the `run` and beside it. */
async function submitWide(
  name: string,
  script: string,
  more: { readonly run?: string; readonly job?: string },
): Promise<void> {
  const [file, program] = [join(dir, `${name}.yaml`), join(dir, `${name}.sh`)];
  writeFileSync(program, script);
  writeFileSync(
    file,
    `name: ${name}
${more.job ?? ""}
gang: 3
constraints: { maxClusters: 2 }
run:
  command: [sh, ${program}, ${dir}]
  ${more.run ?? ""}
`,
  );
  await cli("submit", file, "--key", name);
}

/** Where each run of the job is, or was, and how it ended. */
async function runsOf(job: string) {
  const { attempts } = await shown<{
    readonly attempts: readonly {
      readonly gpus: readonly { readonly host: string; readonly mask: number }[];
      readonly end?: string;
      readonly cause?: { readonly code: string };
    }[];
  }>("status", job);
  return attempts.map(({ gpus: [at], end, cause }) => ({
    ...{ host: at?.host, mask: at?.mask },
    ...{ end, cause: cause?.code },
  }));
}

describe.runIf(canStandInDriver())("a broken GPU (needs root)", () => {
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "orbweaver-broken-"));
    const bin = join(dir, "bin");
    vi.stubEnv(NVML_VARIABLE, "off");
    vi.stubEnv("PATH", `${bin}:${process.env["PATH"] ?? ""}`);
    errorsOn();
    driver = standInDriver(dir, DRIVER_GPUS);
    const file = join(dir, "fleet.yaml");
    writeFileSync(file, FLEET_FILE);
    await up(file);
  });
  afterAll(async () => {
    await cli("down", "--stop-jobs").catch(() => undefined);
    vi.unstubAllEnvs();
    removeFolder(dir);
  });

  it("comes back by itself when its errors have ended; the job that left it was not charged, and the next ones run on it", async () => {
    await cli("drain", "spare/s1");
    // Its one attempt (`retry`): a loss that is charged would end it.
    await cli("submit", "--key", "leaves", "--gpus", "1", "--", "sleep", "3600");
    await expect.poll(() => runsOf("leaves")).toMatchObject([{ host: MACHINE, end: undefined }]);
    const [{ mask = 0 } = {}] = await runsOf("leaves");
    const gpu = mask - 1;
    // No record of the kernel's log: the driver's answer alone, for which it is asked once a minute.
    errorsOn(gpu);
    await expect
      .poll(drained)
      .toContainEqual(
        expect.objectContaining({ id: MACHINE, gpus: [expect.objectContaining({ gpus: [gpu] })] }),
      );
    await expect
      .poll(() => runsOf("leaves"))
      .toMatchObject([
        { host: MACHINE, mask, cause: "HOST_LOST" },
        { host: MACHINE, mask: 3 - mask, end: undefined },
      ]);
    errorsOn();
    await expect.poll(async () => (await drained()).map(({ id }) => id)).toEqual(["spare/s1"]);
    await cli("kill", "leaves");
    await cli("submit", "--key", "returns", "--gpus", "2", "--", "sleep", "3600");
    await expect
      .poll(() => runsOf("returns"))
      .toMatchObject([{ host: MACHINE, mask: 3, end: undefined }]);
    await cli("kill", "returns");
    await cli("undrain", "spare/s1");
  });

  it("that has vanished is drained by its id, also for an agent that finds it gone; the other one keeps its place, and it comes back with its GPU", async () => {
    await cli("drain", "spare/s1");
    await cli("submit", "--key", "vanishes", "--gpus", "2", "--", "sleep", "3600");
    await expect.poll(() => runsOf("vanishes")).toMatchObject([{ host: MACHINE, end: undefined }]);
    shows(1);
    const reason = expect.stringMatching(
      /^GPU fault since .*: GPU GPU-00000000-.* is gone$/,
    ) as string;
    const gone = { id: MACHINE, isDrained: false, gpus: [{ gpus: [0], reason }] };
    await expect.poll(drained).toContainEqual(gone);
    await expect.poll(() => runsOf("vanishes")).toMatchObject([{ cause: "HOST_LOST" }]);
    await cli("kill", "vanishes");
    kill(agentPid() ?? 0);
    await expect.poll(agentPid).toBeUndefined();
    await up();
    expect(await drained()).toContainEqual(gone);
    await cli(
      "submit",
      "--key",
      "beside",
      "--gpus",
      "1",
      "--",
      "sh",
      "-c",
      'echo "$CUDA_VISIBLE_DEVICES"; sleep 3600',
    );
    await expect
      .poll(() => runsOf("beside"))
      .toMatchObject([{ host: MACHINE, mask: 2, end: undefined }]);
    await expect.poll(() => cli("logs", "beside")).toContain("GPU-00000001-1111");
    shows(0, 1);
    await expect.poll(async () => (await drained()).map(({ id }) => id)).toEqual(["spare/s1"]);
    await cli(
      "submit",
      "--wait",
      "--gpus",
      "1",
      "--",
      "sh",
      "-c",
      'test "$CUDA_VISIBLE_DEVICES" = GPU-00000000-1111-2222-3333-444444444444',
    );
    expect(await runsOf("beside")).toMatchObject([{ mask: 2, end: undefined }]);
    await cli("kill", "beside");
    await cli("undrain", "spare/s1");
  });

  it("stays out over a restart of its agent with the same reason, and is back with one that finds it mended", async () => {
    errorsOn(1);
    await expect.poll(drained).toMatchObject([{ id: MACHINE, gpus: [{ gpus: [1] }] }]);
    const before = await drained();
    kill(agentPid() ?? 0);
    await expect.poll(agentPid).toBeUndefined();
    await up();
    expect(await drained()).toEqual(before);
    kill(agentPid() ?? 0);
    await expect.poll(agentPid).toBeUndefined();
    errorsOn();
    await up();
    await expect.poll(drained).toEqual([]);
    await cli("submit", "--wait", "--gpus", "2", "--", "true");
  });

  it("has all hosts of a gang write the checkpoint, from which the job goes on, uncharged, when its GPUs are whole again", async () => {
    await submitWide("wide", SAVING_RANK, { run: "checkpoint: { signal: USR1, grace: 1m }" });
    const began = (run: number, checkpoint: string): readonly string[] =>
      [0, 1, 2].map((rank) => `run ${run} rank ${rank} from [${checkpoint}]`);
    const said = (): readonly string[] =>
      existsSync(join(dir, "began"))
        ? readFileSync(join(dir, "began"), "utf8").trim().split("\n").sort()
        : [];
    await expect.poll(said).toEqual(began(1, ""));
    errorsOn(0);
    const lost = { host: expect.any(String) as string, end: "failed", cause: "HOST_LOST" };
    await expect.poll(() => runsOf("wide")).toMatchObject([lost]);
    errorsOn();
    await expect.poll(said).toEqual([...began(1, ""), ...began(2, "step")]);
    expect(await runsOf("wide")).toMatchObject([lost, { end: undefined }]);
    await cli("kill", "wide");
  });

  it("costs an array's task over several hosts nothing, on whichever of them it fails, and it runs again when its GPUs are whole", async () => {
    await submitWide("tasks", LEAVING_RANK, { job: "array: { count: 2 }" });
    const runs = (): readonly number[] => {
      const ranks = join(dir, "ranks");
      const tokens = existsSync(ranks) ? readFileSync(ranks, "utf8").trim().split("\n") : [];
      return [...new Set(tokens)].map((token) => tokens.filter((each) => each === token).length);
    };
    await expect.poll(runs).toEqual([3]);
    errorsOn(0);
    await expect.poll(drained).toMatchObject([{ id: MACHINE }]);
    await expect
      .poll(() => shown<{ readonly array: object }>("status", "tasks"))
      .toMatchObject({ array: { counts: { running: 0, waiting: 2, failed: 0 } } });
    errorsOn();
    await expect.poll(runs).toEqual([3, 3]);
    writeFileSync(join(dir, "go"), "");
    await expect
      .poll(() => shown<{ readonly array: object }>("status", "tasks"))
      .toMatchObject({ array: { counts: { completed: 2, failed: 0 } } });
  });

  it("is drained by the driver's own errors; the job on it goes on elsewhere, and the one beside it stays", async () => {
    await cli("drain", "spare/s1");
    for (const key of JOBS) await cli("submit", "--key", key, "--gpus", "1", "--", "sleep", "3600");
    for (const job of JOBS)
      await expect.poll(() => runsOf(job)).toMatchObject([{ host: MACHINE, end: undefined }]);
    const runs = await Promise.all(JOBS.map(runsOf));
    const onFirst = runs.findIndex(([first]) => first?.mask === 1);
    const [broken = "", sound = ""] = onFirst === 0 ? JOBS : [...JOBS].reverse();
    await cli("undrain", "spare/s1");

    errorsOn(0);
    driver?.log("NVRM: Xid (PCI:0000:18:00): 48, pid=4242, DBE in a page");

    const reason = expect.stringMatching(
      /^GPU fault since .*Z: GPU 0:18:00: Xid 48 \(double-bit ECC error\); GPU 0:18:00: 2 uncorrected ECC errors$/,
    ) as string;
    await expect
      .poll(drained)
      .toEqual([{ id: MACHINE, isDrained: false, gpus: [{ gpus: [0], reason }] }]);
    await expect
      .poll(() => runsOf(broken))
      .toMatchObject([
        { host: MACHINE, mask: 1, end: expect.any(String) as string },
        { host: "spare/s1" },
      ]);
    expect(await runsOf(sound)).toEqual([{ host: MACHINE, mask: 2, end: undefined }]);
  });

  it("is to blame where a job fails of it before anybody has looked: the job is not charged, and does not come back", async () => {
    for (const key of JOBS) await cli("kill", key);
    await cli("drain", "spare/s1");
    await cli("submit", "--key", "fails", "--gpus", "1", "--", "sleep", "3600");
    await expect.poll(() => runsOf("fails")).toMatchObject([{ host: MACHINE, end: undefined }]);
    await cli("undrain", "spare/s1");
    const [pid = 0] = await vi.waitUntil(() => {
      const pids = pidsWith("ORBWEAVER_JOB_ID=fails");
      return pids.length > 0 && pids;
    });

    driver?.log("NVRM: Xid (PCI:0000:28:00): 48, pid=4242, DBE in a page");
    kill(pid);

    await expect
      .poll(() => runsOf("fails"))
      .toMatchObject([{ host: MACHINE, mask: 2, cause: "HOST_LOST" }, { host: "spare/s1" }]);
    await expect.poll(drained).toMatchObject([{ id: MACHINE, isDrained: true }]);
  });
});
