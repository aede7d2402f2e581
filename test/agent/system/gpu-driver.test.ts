/** @file The driver asked through NVML, by a stand-in of its library: the same answers as `nvidia-smi`, what fails, and Xids as they come. */

import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { askDriver, driverView, NVML_VARIABLE } from "../../../agent/system/gpu-driver.ts";
import { machineDevices } from "../../../agent/system/machine-devices.ts";
import { nodeClock } from "../../../agent/system/node-clock.ts";
import { openXidLog } from "../../../agent/system/xid-log.ts";
import { parseDeviceQuery } from "../../../domain/fleet/parse-device-query.ts";
import { parseGpuFaults } from "../../../domain/fleet/gpu-faults.ts";
import { GPU_PROCESS_WORDS, parseGpuProcesses } from "../../../domain/fleet/parse-gpu-processes.ts";
import { parseNvlinkErrors, parseNvlinkStatus } from "../../../domain/fleet/nvlink-status.ts";
import { GPU_USE_WORDS, parseGpuUse } from "../../../domain/fleet/parse-gpu-use.ts";
import { parseXid } from "../../../domain/fleet/xid.ts";
import { standInNvidiaSmi } from "../../support/stand-in-nvidia-smi.ts";
import { standInNvml, type StandInNvml } from "../../support/stand-in-nvml.ts";
import { builtNvml, eventually, folder, removeFolders } from "../fixture.ts";

afterEach(removeFolders);

const H100 = "NVIDIA H100 80GB HBM3";
const QUERY = ["-q", "-x"];
const program = builtNvml();

const uuid = (gpu: number): string => `GPU-0000000${gpu}-1111-2222-3333-444444444444`;
/** As the first GPUs of the stand-in for `nvidia-smi` are. */
const gpu = (at: number, facts: Readonly<Record<string, string | number>> = {}) => ({
  ...{ name: H100, uuid: uuid(at), bus: `00000000:${at + 1}8:00.0` },
  ...{ memory: 81_559, used: 4, limit: 700_000, use: 0, power: 70_120 },
  ...facts,
});

function nvml(over: { readonly path?: string } = {}): StandInNvml {
  const library = standInNvml(folder(), { program: program ?? "", ...over });
  if (library === undefined) throw new Error("the stand-in does not compile");
  return library;
}

/** A `PATH` with a stand-in for `nvidia-smi` alone. */
function smi(gpus: Parameters<typeof standInNvidiaSmi>[1]["gpus"]): string {
  const bin = join(folder(), "bin");
  standInNvidiaSmi(bin, { gpus });
  return bin;
}

describe.runIf(program !== undefined)("a driver that is asked through NVML", () => {
  it("shows the GPUs that nvidia-smi shows, whole and divided", async () => {
    for (const instances of [0, 2]) {
      const library = nvml();
      const parts = instances > 0 ? { instances, profile: "1g.10gb" } : {};
      library.say([gpu(0, parts), gpu(1, parts)]);
      const bin = smi([0, 1].map(() => ({ device: H100, ...(instances > 0 && { instances }) })));
      const [byNvml, bySmi] = await Promise.all([
        machineDevices(library.view),
        machineDevices({ path: bin }),
      ]);
      expect(byNvml.source).toBe("nvml");
      expect(bySmi.source).toBe("nvidia-smi");
      expect(byNvml.gpus).toEqual(bySmi.gpus);
      expect(byNvml.gpus[1]?.instances).toHaveLength(instances);
    }
  });

  it("says how much they are used, as nvidia-smi does", async () => {
    const library = nvml();
    library.say([gpu(0), { name: H100, uuid: uuid(1), bus: "00000000:28:00.0" }]);
    const useOf = async (view: Parameters<typeof askDriver>[0]) =>
      parseGpuUse((await askDriver(view, GPU_USE_WORDS))?.text ?? "");
    expect(await useOf(library.view)).toEqual([
      ...(await useOf({ path: smi([{ device: H100 }]) })),
      undefined,
    ]);
  });

  it("says which processes compute on them, as nvidia-smi does", async () => {
    const library = nvml();
    library.say([gpu(0, { computing: "41 4711" }), gpu(1)]);
    const path = smi([{ device: H100, computing: [41, 4711] }, { device: H100 }]);
    for (const view of [library.view, { path }]) {
      const answer = await askDriver(view, GPU_PROCESS_WORDS);
      expect(parseGpuProcesses(answer?.text ?? "")).toEqual([
        { uuid: uuid(0), pid: 41 },
        { uuid: uuid(0), pid: 4711 },
      ]);
    }
  });

  it("says what is broken, and nothing of what a GPU does not support", async () => {
    const library = nvml();
    const worn = { rows_pending: 1, rows_failed: 1, retires: 1, ecc: 2 };
    const hampered = { reasons: "0x40", recovery: 2, fabric: 2 };
    library.say([gpu(0), gpu(1, worn), gpu(2, hampered)]);
    const answer = await askDriver(library.view, QUERY);
    expect(parseGpuFaults(answer?.text ?? "")).toEqual([
      { busId: "0:18:00", uuid: uuid(0), faults: [], limits: [], beyond: [] },
      {
        busId: "0:28:00",
        uuid: uuid(1),
        faults: ["2 uncorrected ECC errors", "a bad row could not be remapped"],
        limits: [
          "a row waits for a reset to be remapped",
          "a page waits for a reset to be retired",
        ],
        beyond: [],
      },
      {
        busId: "0:38:00",
        uuid: uuid(2),
        faults: [],
        limits: ["hardware thermal slowdown"],
        beyond: ["the driver asks for: Reboot", "it is not in NVLink's fabric: In Progress"],
      },
    ]);
  });

  it("says which NVLinks are up, and what they have counted", async () => {
    const library = nvml();
    library.say([gpu(0, { links: 18, links_up: 17, recoveries: 5 }), gpu(1)]);
    const ask = async (word: string): Promise<string> =>
      (await askDriver(library.view, ["nvlink", word]))?.text ?? "";
    expect(parseNvlinkStatus(await ask("--status"))).toEqual(new Map([[uuid(0), 17]]));
    expect(parseNvlinkErrors(await ask("--errorcounters"))).toEqual(new Map([[uuid(0), 5]]));
  });

  it("leaves words that the program does not know to nvidia-smi, and all where the choice is off", async () => {
    const path = smi([{ device: H100 }]);
    const library = nvml({ path });
    library.say([gpu(0)]);
    expect(await askDriver(library.view, ["topo", "-m"])).toMatchObject({ by: "nvidia-smi" });
    expect(await askDriver(library.view, QUERY)).toMatchObject({ by: "nvml" });
    const off = driverView({ PATH: path, [NVML_VARIABLE]: "off" }, "/nowhere");
    expect(await askDriver(off, QUERY)).toMatchObject({ by: "nvidia-smi" });
    expect(() => driverView({ [NVML_VARIABLE]: "on" }, "/")).toThrow(/auto, off/);
  });

  it.each([
    { what: "does not start", start: "start 18", want: /version mismatch/ },
    { what: "crashes", start: "crash", want: /ended by SIGABRT/ },
  ])("fails where the driver $what, unless nvidia-smi answers", async ({ start, want }) => {
    const library = nvml();
    library.say([gpu(0)], start);
    await expect(askDriver(library.view, QUERY)).rejects.toThrow(want);
    const path = smi([{ device: H100 }]);
    expect(await askDriver({ ...library.view, path }, QUERY)).toMatchObject({ by: "nvidia-smi" });
  });

  it.each([
    { what: "no library", view: { libraries: "/nowhere" } },
    { what: "no driver", view: {}, start: "start 9" },
    { what: "no program", view: { nvml: "/nowhere/nvml" } },
  ])("is none where there is $what", async ({ view, start }) => {
    const library = nvml();
    library.say([gpu(0)], start);
    expect(await askDriver({ ...library.view, ...view }, QUERY)).toBeUndefined();
  });

  it("is none where its program cannot be loaded, as by another C library", async () => {
    const file = join(folder(), "nvml");
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, "#!/bin/sh\necho 'version GLIBC_2.99 not found' >&2\nexit 1\n");
    chmodSync(file, 0o755);
    expect(await askDriver({ nvml: file, path: "" }, QUERY)).toBeUndefined();
  });

  it("shows no GPU that is lost, and fails where it is asked who computes", async () => {
    const library = nvml();
    library.say([gpu(0), gpu(1, { lost: 1 })]);
    const answer = await askDriver(library.view, QUERY);
    expect(parseDeviceQuery(answer?.text ?? "")).toHaveLength(1);
    await expect(askDriver(library.view, GPU_PROCESS_WORDS)).rejects.toThrow(
      "GPU 1 does not answer: GPU is lost (NVML 15)",
    );
  });
});

describe.runIf(program !== undefined)("Xids through NVML", () => {
  it("come as the driver tells of them, without the kernel log", async () => {
    const library = nvml();
    library.say([gpu(0), gpu(1)]);
    const notes: string[] = [];
    const log = openXidLog(library.view, { clock: nodeClock, onNote: (note) => notes.push(note) });
    const seen: string[] = [];
    const look = (): readonly string[] => {
      for (const { text } of log.read()) seen.push(text);
      return seen;
    };
    try {
      look();
      library.tell(1, 79);
      await eventually(() => look().length === 1);
      library.tell(0, 31);
      await eventually(() => look().length === 2);
      expect(seen.map(parseXid)).toEqual([
        { busId: "0:28:00", xid: 79, text: "" },
        { busId: "0:18:00", xid: 31, text: "" },
      ]);
      expect(notes).toEqual([]);
    } finally {
      log.close();
    }
  });

  it("are none where events end, which is said once, and come again a minute later", async () => {
    const library = nvml();
    library.say([gpu(0)]);
    const notes: string[] = [];
    let nowMs = 0;
    const clock = { elapsedMs: () => nowMs };
    const log = openXidLog(library.view, { clock, onNote: (note) => notes.push(note) });
    try {
      log.read();
      library.tell(0, -15);
      await eventually(() => notes.length === 1);
      expect(notes).toEqual(["no Xid is seen through NVML: events end: GPU is lost (NVML 15)"]);
      expect(log.read()).toEqual([]);
      nowMs = 60_000;
      library.say([gpu(0)]);
      library.tell(0, 48);
      await eventually(() => log.read().some(({ text }) => parseXid(text)?.xid === 48));
      expect(notes).toHaveLength(1);
    } finally {
      log.close();
    }
  });

  it("of the others come where a GPU is lost", async () => {
    const library = nvml();
    library.say([gpu(0), gpu(1, { lost: 1 })]);
    const log = openXidLog(library.view, { clock: nodeClock, onNote: () => undefined });
    try {
      log.read();
      library.tell(0, 31);
      await eventually(() => log.read().some(({ text }) => parseXid(text)?.xid === 31));
    } finally {
      log.close();
    }
  });

  it("are none, and said so once, where the program cannot be started", async () => {
    const notes: string[] = [];
    let nowMs = 0;
    const log = openXidLog(
      { path: "", nvml: "/nowhere/nvml" },
      { clock: { elapsedMs: () => nowMs }, onNote: (note) => notes.push(note) },
    );
    // A note of another kind than the first would come between two that are alike.
    for (let tries = 0; tries < 3; tries += 1) {
      log.read();
      await eventually(() => notes.length > 0);
      await new Promise((resolve) => setTimeout(resolve, 100));
      nowMs += 60_000;
    }
    log.close();
    expect(notes).toEqual([expect.stringContaining("ENOENT")]);
  });

  it("are none, and said so, where NVML is not asked", () => {
    const notes: string[] = [];
    const log = openXidLog({ path: "" }, { clock: nodeClock, onNote: (note) => notes.push(note) });
    expect([log.read(), log.read()]).toEqual([[], []]);
    expect(notes).toEqual([expect.stringContaining("it is not asked")]);
  });
});
