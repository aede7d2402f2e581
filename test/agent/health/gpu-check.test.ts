/** @file The agent's own check of GPUs: what fails it, for how long, which GPUs jobs leave, and that a job is not charged for it. */
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createGpuCheck, HOLD_MS, type PlacedGpu } from "../../../agent/health/gpu-check.ts";
import { moveLaunches } from "../../../agent/health/move-launches.ts";
import { openKernelLog } from "../../../agent/system/kernel-log.ts";
import { nodeClock } from "../../../agent/system/node-clock.ts";
import { ms } from "../../../domain/values/units.ts";
import { deviceQuery } from "../../support/stand-in-nvidia-smi.ts";
import { folder, orderOf, pidIn, removeFolders, runs, testAgent } from "../fixture.ts";

afterEach(removeFolders);

const H100 = { device: "NVIDIA H100 80GB HBM3" };
/** At 0:18:00 and 0:28:00. */
const SOUND = deviceQuery([H100, H100]);
const broken = SOUND.replace(
  "<uuid>GPU-00000001",
  "<ecc_errors><volatile><dram_uncorrectable>2</dram_uncorrectable></volatile></ecc_errors><uuid>GPU-00000001",
);
const XID_48 = "GPU 0:18:00: Xid 48 (double-bit ECC error)";
const kernelLine = (xid: number, atMs: number, busId = "0000:28:00"): string =>
  `4,1,${atMs * 1_000},-;NVRM: Xid (PCI:${busId}): ${xid}, pid=1, name=python\n`;

/** As `nvidia-smi nvlink --status` prints it: so many of each GPU's 18 links are up. */
const linkStatus = (up: readonly number[]): string =>
  up
    .map((count, gpu) => {
      const lines = Array.from(
        { length: 18 },
        (_, link) => `\t Link ${link}: ${link < count ? "26.562 GB/s" : "<inactive>"}\n`,
      );
      return `GPU ${gpu}: ${H100.device} (UUID: GPU-0000000${gpu}-1111-2222-3333-444444444444)\n${lines.join("")}`;
    })
    .join("");

/** A machine whose clock, driver and kernel log (a file) a test sets. */
function machine(answers: string | Error | undefined = SOUND, gpus: readonly PlacedGpu[] = []) {
  const file = join(folder(), "kmsg");
  writeFileSync(file, "");
  const notes: string[] = [];
  const log = openKernelLog(file);
  const state = {
    answer: answers as typeof answers | undefined,
    ...{ nowMs: 1_000, asked: 0, linksAsked: 0 },
    ...{ links: linkStatus([18, 18]), linkErrors: "" },
  };
  const { look, faultsSince } = createGpuCheck({
    gpus: () => gpus,
    clock: { ...nodeClock, sinceBootMs: () => state.nowMs, elapsedMs: () => state.nowMs },
    query: () => {
      state.asked += 1;
      return state.answer instanceof Error
        ? Promise.reject(state.answer)
        : Promise.resolve(state.answer);
    },
    links: () => {
      state.linksAsked += 1;
      return state.links === ""
        ? Promise.reject(new Error("no nvlink"))
        : Promise.resolve(state.links);
    },
    linkErrors: () => Promise.resolve(state.linkErrors),
    readLog: () => log?.read() ?? [],
    onNote: (note) => notes.push(note),
  });
  return {
    state,
    notes,
    check: look,
    faultsSince,
    write: (text: string) => appendFileSync(file, text),
  };
}

describe("the check of GPUs", () => {
  it("passes where all are sound, and where there is no driver", async () => {
    expect(await machine().check()).toEqual({ kind: "passed" });
    expect(await machine(undefined).check()).toEqual({ kind: "passed" });
  });

  it("fails by a hardware fault in the kernel log, and passes an hour later", async () => {
    const { state, check, write } = machine();
    await check();
    write(kernelLine(79, 900));
    expect(await check()).toEqual({
      kind: "failed",
      why: "GPU 0:28:00: Xid 79 (the GPU has fallen off the bus)",
      gpus: [1],
      out: "all",
    });
    expect(state.asked).toBe(2);
    state.nowMs = 900 + HOLD_MS;
    expect(await check()).toEqual({ kind: "passed" });
  });

  it("passes by a fault of an application, which is said, and by one before the last hour", async () => {
    const { check, state, notes, write } = machine();
    state.nowMs = 2 * HOLD_MS;
    write(kernelLine(31, state.nowMs) + kernelLine(79, state.nowMs - HOLD_MS));
    expect(await check()).toEqual({ kind: "passed" });
    expect(notes).toEqual([expect.stringMatching(/^GPU 0:28:00: Xid 31, the application's/)]);
  });

  it("reads a record that was written in two parts", async () => {
    const { check, write } = machine();
    const line = kernelLine(48, 1_000);
    write(line.slice(0, 30));
    expect(await check()).toEqual({ kind: "passed" });
    write(line.slice(30));
    const out = new Map([[1, "GPU 0:28:00: Xid 48 (double-bit ECC error)"]]);
    expect(await check()).toMatchObject({ kind: "failed", gpus: [1], out });
  });

  it("fails by the driver's answer until a later answer is sound", async () => {
    const { state, check } = machine(broken);
    expect(await check()).toEqual({
      kind: "failed",
      why: "GPU 0:28:00: 2 uncorrected ECC errors",
      gpus: [1],
      out: new Map([[1, "GPU 0:28:00: 2 uncorrected ECC errors"]]),
    });
    state.answer = SOUND;
    state.nowMs += 60_000;
    expect(await check()).toEqual({ kind: "passed" });
  });

  it("keeps new work away, and moves nothing, for what lets work go on", async () => {
    const waits = "<gpu_recovery_action>Reset</gpu_recovery_action><uuid>GPU-00000000";
    const { check } = machine(SOUND.replace("<uuid>GPU-00000000", waits));
    expect(await check()).toEqual({
      kind: "failed",
      why: "GPU 0:18:00: the driver asks for: Reset",
      gpus: [],
      out: new Map([[0, "GPU 0:18:00: the driver asks for: Reset"]]),
    });
  });

  it("keeps new work away while a link that was up is down", async () => {
    const { state, check } = machine();
    state.links = linkStatus([18, 12]);
    expect(await check()).toEqual({ kind: "passed" });
    state.nowMs += 60_000;
    state.links = linkStatus([17, 10]);
    expect(await check()).toEqual({
      kind: "failed",
      why: "GPU 0:18:00: 1 of 18 NVLinks is down; GPU 0:28:00: 2 of 12 NVLinks are down",
      gpus: [],
      out: "all",
    });
    state.nowMs += 60_000;
    state.links = "";
    expect(await check()).toEqual({ kind: "passed" });
    state.nowMs += 60_000;
    state.links = linkStatus([18, 12]);
    expect(await check()).toEqual({ kind: "passed" });
  });

  it("fails for all GPUs where the driver fails, or no longer shows one", async () => {
    const { state, check } = machine();
    await check();
    state.nowMs += 60_000;
    state.answer = deviceQuery([H100]);
    expect(await check()).toEqual({
      kind: "failed",
      why: "GPU 0:28:00 is gone",
      ...{ gpus: "all", out: "all" },
    });
    state.nowMs += 60_000;
    state.answer = new Error("Command failed: nvidia-smi -q -x\nGPU is lost");
    expect(await check()).toMatchObject({
      why: /^the driver does not answer: Command failed/,
      gpus: "all",
    });
  });

  it("tells of faults since a time before its next look does, which then asks the driver", async () => {
    const { state, check, faultsSince, write } = machine();
    await check();
    write(kernelLine(79, 900) + kernelLine(48, 1_200, "0000:18:00") + kernelLine(31, 1_300));
    const first = { busId: "0:28:00", sinceBootMs: 900 };
    const second = { busId: "0:18:00", sinceBootMs: 1_200 };
    expect(faultsSince(0)).toMatchObject([first, second]);
    expect(faultsSince(901)).toMatchObject([second]);
    expect(faultsSince(1_201)).toEqual([]);
    expect(await check()).toMatchObject({ kind: "failed", gpus: [0, 1] });
    expect(state.asked).toBe(2);
    await check();
    expect(state.asked).toBe(2);
  });

  it("names GPUs by the places that the agent's hosts know, where the driver's answer lacks some of them", async () => {
    const places = [
      { busId: "0:18:00", place: 1 },
      { busId: "0:28:00", place: 3 },
    ];
    const { check } = machine(broken, places);
    expect(await check()).toMatchObject({ kind: "failed", gpus: [3] });
    const log = machine(SOUND, places);
    await log.check();
    log.write(kernelLine(48, 900, "0000:18:00"));
    expect(await log.check()).toMatchObject({ gpus: [1], out: new Map([[1, /Xid 48/]]) });
    log.write(kernelLine(48, 950, "0000:99:00"));
    expect(await log.check()).toMatchObject({ gpus: "all", out: "all" });
  });

  it("takes out the one GPU that is gone, by its id, until it is shown again", async () => {
    const uuidOf = (gpu: number): string => `GPU-0000000${gpu}-1111-2222-3333-444444444444`;
    // The host has noted the second one of the machine's order first.
    const { state, check, write } = machine(SOUND, [
      { place: 0, uuid: uuidOf(1), busId: "0:28:00" },
      { place: 1, uuid: uuidOf(0), busId: "0:18:00" },
    ]);
    expect(await check()).toEqual({ kind: "passed" });
    state.nowMs += 60_000;
    state.answer = deviceQuery([H100]);
    const why = `GPU ${uuidOf(1)} is gone`;
    const gone = { kind: "failed", why, gpus: [0], out: new Map([[0, why]]) };
    expect(await check()).toEqual(gone);
    write(kernelLine(48, state.nowMs - 1, "0000:18:00"));
    expect(await check()).toMatchObject({ gpus: [0, 1], why: `${why}; ${XID_48}` });
    state.nowMs += HOLD_MS;
    expect(await check()).toEqual(gone);
    state.nowMs += 60_000;
    state.answer = SOUND;
    expect(await check()).toEqual({ kind: "passed" });
  });

  it("takes out that GPU alone, too, where it has written an Xid before, whatever is at its bus address now", async () => {
    const gone = { place: 1, busId: "0:28:00", goneText: "GPU GPU-b is gone" };
    const { check, write } = machine(deviceQuery([H100]), [{ place: 0, busId: "0:18:00" }, gone]);
    write(kernelLine(119, 900));
    expect(await check()).toMatchObject({ gpus: [1], out: new Map([[1, expect.any(String)]]) });
    const replaced = machine(SOUND, [
      { ...gone, place: 0 },
      { place: 1, busId: "0:28:00" },
    ]);
    replaced.write(kernelLine(119, 900));
    expect(await replaced.check()).toMatchObject({ gpus: [0, 1] });
  });

  it("fails where a driver is there no more that was, as while it is replaced", async () => {
    const { state, check } = machine();
    expect(await check()).toEqual({ kind: "passed" });
    [state.answer, state.nowMs] = [undefined, state.nowMs + 10_000];
    expect(await check()).toMatchObject({ why: "the driver is there no more", out: "all" });
    [state.answer, state.nowMs] = [SOUND, state.nowMs + 10_000];
    expect(await check()).toEqual({ kind: "passed" });
  });

  it("takes out a place for which the machine has had no GPU, also without a driver that says which there are", async () => {
    const gpus = [
      { place: 0, uuid: "GPU-a" },
      { place: 1, goneText: "GPU GPU-b is gone" },
    ];
    const { state, check } = machine(SOUND, gpus);
    state.answer = undefined;
    expect(await check()).toMatchObject({
      gpus: [1],
      out: new Map([[1, "GPU GPU-b is gone"]]),
    });
  });

  it("asks the driver every ten seconds, and of its links once a minute, where nothing happens", async () => {
    const { state, check } = machine();
    for (let round = 0; round < 12; round += 1) {
      await check();
      await check();
      state.nowMs += 10_000;
    }
    expect([state.asked, state.linksAsked]).toEqual([12, 2]);
  });

  it("has no log where none can be opened", () => {
    expect(openKernelLog(join(folder(), "none"))).toBeUndefined();
  });

  it("says how many errors the links of a GPU have counted more, and drains nothing for them", async () => {
    const { state, notes, check } = machine();
    const errors = (recoveries: number): string =>
      `GPU 0: ${H100.device} (UUID: GPU-00000000-1111-2222-3333-444444444444)\n\t Link 0: Replay Errors: 2\n\t Link 0: Recovery Errors: ${recoveries}\n`;
    for (const recoveries of [5, 5, 8]) {
      state.linkErrors = errors(recoveries);
      expect(await check()).toEqual({ kind: "passed" });
      state.nowMs += 60_000;
    }
    expect(notes).toEqual([expect.stringMatching(/^GPU-00000000-1111.* 3 errors more/)]);
  });
});

describe("jobs on broken GPUs", () => {
  const endless = (dir: string, name: string): string =>
    `echo $$ > ${dir}/${name}; while :; do sleep 0.02; done`;

  it("checkpoint and end as of a lost host; one on a sound GPU runs on", async () => {
    const dir = folder();
    const agent = testAgent();
    const save = `touch ${dir}/saved; mkdir "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/step"`;
    const leaves = orderOf(endless(dir, "leaves"), {
      run: {
        graceMs: ms(1_000),
        checkpoint: {
          order: { kind: "command", command: ["sh", "-c", save] },
          graceMs: ms(60_000),
        },
      },
    });
    const ended = agent.runs.run(leaves);
    const pid = await pidIn(join(dir, "leaves"));
    const notes: string[] = [];
    const move = {
      reason: "GPU fault since now: Xid 79",
      onNote: (note: string) => notes.push(note),
    };
    await moveLaunches([agent.host], { ...move, gpus: [29] });
    expect(runs(pid)).toBe(true);
    await moveLaunches([agent.host], { ...move, gpus: "all" });
    expect(runs(pid)).toBe(false);
    expect(existsSync(join(dir, "saved"))).toBe(true);
    expect(await ended).toMatchObject({
      end: "failed",
      cause: { code: "HOST_LOST", message: expect.stringContaining("Xid 79") as string },
    });
    expect(notes).toHaveLength(1);
  });
});
