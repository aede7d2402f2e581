/** @file Which GPU has which place of its host, over GPUs that vanish, come back and are replaced, and over restarts of the agent. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { HostGpu } from "../../../agent/containment/host-gpus.ts";
import { placedGpus } from "../../../agent/containment/placed-gpus.ts";
import { placeGpus } from "../../../agent/folder/gpus-file.ts";
import { nodeFiles } from "../../../agent/system/node-files.ts";
import { folder, removeFolders } from "../fixture.ts";

afterEach(removeFolders);

/** `a1` is GPU a at bus address 1. */
const shown = (...names: readonly string[]): readonly HostGpu[] =>
  names.map((name, index) => ({
    ...{ index, uuid: `GPU-${name.slice(0, 1)}`, busId: `0:${name.slice(1)}:00` },
    ...{ nodes: [`/dev/nvidia${index}`], devices: [`195:${index}`] },
  }));
const words = (gpus: readonly HostGpu[]): readonly string[] =>
  gpus.map(({ index, uuid, isGone }) => `${index} ${uuid.slice(4)}${isGone ? " gone" : ""}`);

describe("the places of a host's GPUs", () => {
  it.each([
    ["the machine's order without a note", [], ["a1", "b2"], ["0 a", "1 b"]],
    ["as noted, whatever the order", ["a1", "b2"], ["b1", "a2"], ["0 a", "1 b"]],
    ["held for one that is gone", ["a1", "b2", "c3"], ["a1", "c3"], ["0 a", "1 b gone", "2 c"]],
    ["held for all where none is shown", ["a1", "b2"], [], ["0 a gone", "1 b gone"]],
    [
      "given to the one at the same address",
      ["a1", "b2", "c3"],
      ["c1", "d2"],
      ["0 a gone", "1 d", "2 c"],
    ],
    ["given to one at another address", ["a1", "b2"], ["a1", "d9"], ["0 a", "1 d"]],
    ["behind all others for one more", ["b2", "c3"], ["a1", "b2", "c3"], ["0 b", "1 c", "2 a"]],
  ] as const)("are %s", (_, noted, now, want) => {
    expect(words(placedGpus(shown(...noted), shown(...now)))).toEqual(want);
  });

  it("keep what the machine says of the GPU, and say nothing of one that is gone", () => {
    const [first, gone] = placedGpus(shown("b2", "a1"), shown("b7"));
    expect(first).toEqual({ ...shown("b7")[0], index: 0 });
    expect(gone).toEqual({
      index: 1,
      uuid: "GPU-a",
      busId: "0:1:00",
      nodes: [],
      devices: [],
      isGone: true,
    });
  });

  const part = (uuid: string, gpu: number) => ({ uuid, gpu, busId: "0:1:00" });

  it("of instances of MIG that are gone lie on no GPU that is there", () => {
    const noted = [part("MIG-a", 0), part("MIG-b", 0), part("MIG-c", 1)];
    const now = [{ ...part("MIG-a", 0), index: 0, nodes: [], devices: [] }];
    expect(placedGpus(noted, now).map(({ gpu }) => gpu)).toEqual([0, 2, 3]);
  });

  it("gives an instance of MIG no place of a whole GPU, which is out alone", () => {
    const [whole] = shown("a1");
    const now = [{ ...part("MIG-a", 0), index: 0, nodes: [], devices: [] }];
    expect(placedGpus(whole === undefined ? [] : [whole], now)).toMatchObject([
      { index: 0, uuid: "GPU-a", isGone: true, gpu: 1 },
      { index: 1, uuid: "MIG-a", gpu: 0 },
    ]);
  });
});

describe("the note of the places", () => {
  const described = { gpuCount: 2, gpuType: "H100" };
  function host(path = join(folder(), "gpus.json")) {
    const notes: string[] = [];
    const onNote = (note: string): unknown => notes.push(note);
    const look = (now: readonly string[], over = described) =>
      words(
        placeGpus(nodeFiles, path, { described: over, shown: shown(...now), known: [], onNote }),
      );
    return { look, path, notes };
  }

  it("is written by the first look that finds all GPUs, and holds from then on", () => {
    const { look, path } = host();
    expect(look(["b2"])).toEqual(["0 b"]);
    expect(existsSync(path)).toBe(false);
    expect(look(["a1", "b2"])).toEqual(["0 a", "1 b"]);
    expect(look(["b2"])).toEqual(["0 a gone", "1 b"]);
    expect(look(["d1", "b2"])).toEqual(["0 d", "1 b"]);
    expect(look(["b2"])).toEqual(["0 d gone", "1 b"]);
    expect(readFileSync(path, "utf8")).toContain("GPU-d");
  });

  it("is not needed by an agent that has placed them: a GPU that comes later moves none", () => {
    const path = join(folder(), "gpus.json");
    const known = shown("b2");
    const later = { described, shown: shown("a1", "b2"), known, onNote: () => undefined };
    expect(words(placeGpus(nodeFiles, path, later))).toEqual(["0 b", "1 a"]);
  });

  it("is begun anew by another description of the host, and where it cannot be read", () => {
    const { look, path } = host();
    look(["a1", "b2"]);
    expect(look(["b2"], { gpuCount: 1, gpuType: "H100" })).toEqual(["0 b"]);
    nodeFiles.write(path, "{");
    expect(look(["b1", "a2"])).toEqual(["0 b", "1 a"]);
  });

  it("keeps no agent from its start where it cannot be written", () => {
    const { look, notes } = host(join(folder(), "none", "gpus.json"));
    expect(look(["a1", "b2"])).toEqual(["0 a", "1 b"]);
    expect(notes).toEqual([expect.stringContaining("could not be noted")]);
  });
});
