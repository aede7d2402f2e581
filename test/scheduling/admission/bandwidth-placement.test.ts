/** @file BandPilot behind the placement: when its pick is taken, what the note says, and what happens when the model fails. */
import { describe, expect, test } from "vitest";
import type { BandwidthPredictor, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { messagesText } from "../../../domain/bandwidth/message-profile.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { clusterId } from "../../../domain/values/ids.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { withBandwidth } from "../../../scheduling/admission/bandwidth-placement.ts";
import { sendingOf } from "../../../scheduling/admission/bandwidth-notes.ts";
import { openBandwidth } from "../../../scheduling/cycle/bandwidth.ts";
import { leastSpread } from "../../../scheduling/placement/least-spread.ts";
import type { BandwidthPorts, PlaceDemand } from "../../../scheduling/placement/place-policy.ts";
import { openSpread } from "../../../scheduling/placement/spread.ts";
import { gpus, host } from "../builders.ts";
import { fleetOf, type RackSpec } from "../placement/fleets.ts";

const ALL = 0b11111111;
const SIX = 0b00111111;

/** Inside a host 200 GB/s; over hosts 20 for each GPU of the host that has the fewest. */
const balanced = (candidate: Candidate): number =>
  candidate.length === 1 ? 200 : 20 * Math.min(...candidate.map(({ mask }) => popCount(mask)));

function predictorOf(
  hosts: number,
  gbsOf: (candidate: Candidate) => number = balanced,
): BandwidthPredictor {
  const { clusters } = fleetOf([{ cluster: "c0", hosts }]);
  return {
    version: "v1",
    domain: {
      hosts: clusters.flatMap(({ hosts: own }) =>
        own.map(({ id, gpuCount, gpuType }) => ({ id, gpuCount, gpuType })),
      ),
      intraGbs: (_, mask) => (popCount(mask) === 1 ? Infinity : 200),
    },
    predict: (candidates) => candidates.map(gbsOf),
  };
}

interface Question {
  readonly free: Readonly<Record<string, number>>;
  readonly racks?: readonly RackSpec[];
  readonly demand?: Partial<PlaceDemand>;
  readonly bandwidth?: BandwidthPorts;
}

function place({ free, racks, demand, bandwidth }: Question) {
  const hosts = Object.keys(free).length;
  const spread = openSpread(fleetOf(racks ?? [{ cluster: "c0", hosts }]));
  const open = Object.entries(free).flatMap(([name, freeMask]) => {
    const at = spread.layout.get(host(name));
    return at === undefined ? [] : [{ at, freeMask }];
  });
  const asked = { gpus: 8, maxClusters: 1, isSameHost: false, isSameFabric: false, ...demand };
  return withBandwidth(leastSpread)(asked, open, { spread, ...(bandwidth && { bandwidth }) });
}

const TWO_SIXES = { "c0/h0": SIX, "c0/h1": SIX };
const serving = (predictor: BandwidthPredictor): BandwidthPorts => ({
  predictorOf: () => predictor,
});

describe("a gang of 8 on two hosts with 6 free GPUs each", () => {
  test("gets the compact 6 + 2 where nothing is known of bandwidth", () => {
    const placed = place({ free: TWO_SIXES });
    expect(placed.gpus?.map(({ mask }) => popCount(mask)).sort()).toEqual([2, 6]);
    expect(placed.bandwidth).toBeUndefined();
  });

  test("gets the balanced 4 + 4 where a model serves, and its note says what the compact choice would have given", () => {
    const placed = place({ free: TWO_SIXES, bandwidth: serving(predictorOf(2)) });
    expect(placed.gpus).toEqual(gpus(["c0/h0", 0b1111], ["c0/h1", 0b1111]));
    expect(placed.bandwidth).toEqual({
      predictedGbs: 80,
      bestGbs: 80,
      compactGbs: 40,
      model: "v1",
      method: "searched",
    });
  });

  test("gets the GPUs that are fastest for the messages that it sends, and its note names them", () => {
    const small = predictorOf(2, () => 50);
    const predictor: BandwidthPredictor = {
      ...small,
      at: ({ bytes }) => ({ ...predictorOf(2), version: `v1 at ${String(bytes)}` }),
    };
    const bandwidth = serving(predictor);
    expect(place({ free: TWO_SIXES, bandwidth }).bandwidth?.method).toBe("compact");
    const messages = { collective: "all_gather", bytes: 1_100 } as const;
    const placed = place({ free: TWO_SIXES, bandwidth, demand: { messages } });
    expect(placed.gpus).toEqual(gpus(["c0/h0", 0b1111], ["c0/h1", 0b1111]));
    expect(placed.bandwidth).toMatchObject({ predictedGbs: 80, model: "v1 at 1024" });
  });

  test("gets those for what jobs like it sent where it says nothing, and a job that says what it sends keeps that", () => {
    const predictor: BandwidthPredictor = {
      ...predictorOf(2, () => 50),
      at: (messages) => ({ ...predictorOf(2), version: `v1 at ${messagesText(messages)}` }),
    };
    const bandwidth: BandwidthPorts = {
      ...serving(predictor),
      messagesOf: ({ name }) =>
        name === "llama"
          ? { collective: "all_gather", bytes: 2 ** 28, jobs: 3, share: 0.9 }
          : undefined,
    };
    const asked = { constraints: {}, tenant: "a", class: "training", gang: { gpus: 8 } } as const;
    const noteOf = (name: string, constraints: object = {}) => {
      const demand = sendingOf({ ...asked, name, constraints } as unknown as PendingRequest);
      return place({ free: TWO_SIXES, bandwidth, demand }).bandwidth;
    };
    expect(noteOf("llama")).toMatchObject({
      ...{ predictedGbs: 80, method: "searched" },
      model: "v1 at 256 MiB all_gather, learned from 3 jobs (90 %)",
    });
    expect(noteOf("other")).toMatchObject({ model: "v1", method: "compact" });
    const messages = { collective: "all_reduce", bytes: 2 ** 31 };
    expect(noteOf("llama", { messages })?.model).toBe("v1 at 2 GiB");
  });

  test("gets the compact choice where no other is predicted to be better", () => {
    const flat = predictorOf(2, () => 30);
    const placed = place({ free: TWO_SIXES, bandwidth: serving(flat) });
    expect(placed.gpus).toEqual(place({ free: TWO_SIXES }).gpus);
    expect(placed.bandwidth).toMatchObject({ predictedGbs: 30, bestGbs: 30, method: "compact" });
  });

  test.each<readonly [string, BandwidthPorts, string]>([
    [
      "the model cannot be loaded",
      {
        predictorOf: () => {
          throw new Error("no files");
        },
      },
      "no files",
    ],
    [
      "the model overruns its deadline",
      serving(
        predictorOf(2, () => {
          throw new Error("no prediction within 50 ms");
        }),
      ),
      "no prediction within 50 ms",
    ],
    ["the model answers no number", serving(predictorOf(2, () => NaN)), "no number"],
    ["the model knows other hosts", serving(predictorOf(1)), "does not know its hosts"],
  ])("gets the compact choice with a word on it when %s", (_, bandwidth, wantWord) => {
    const placed = place({ free: TWO_SIXES, bandwidth });
    expect(placed.gpus).toEqual(place({ free: TWO_SIXES }).gpus);
    expect(placed.bandwidth?.method).toBe("compact");
    expect(placed.bandwidth?.fallback).toContain(wantWord);
  });
});

test("a single GPU is not searched for", () => {
  const refusing: BandwidthPorts = {
    predictorOf: () => {
      throw new Error("was asked");
    },
  };
  const placed = place({ free: TWO_SIXES, demand: { gpus: 1 }, bandwidth: refusing });
  expect(placed.bandwidth).toBeUndefined();
});

test("a pick that would draw more than a rack may is not taken, and the note says what it would have given", () => {
  const wattsLeft = {
    rack: ({ host: id }: { readonly host: string }) => (id === "c0/h0" ? 6 : 2) * 700,
  };
  const placed = place({
    free: TWO_SIXES,
    racks: [0, 1].map((rack) => ({ cluster: "c0", rack: `r${rack}`, hosts: 1 })),
    demand: { wattsLeft },
    bandwidth: serving(predictorOf(2)),
  });
  expect(placed.gpus).toEqual(gpus(["c0/h0", SIX], ["c0/h1", 0b11]));
  expect(placed.bandwidth).toMatchObject({ predictedGbs: 40, bestGbs: 80, method: "compact" });
});

test("a gang keeps off cards that a neighbour fills, when equal hosts are to be had", () => {
  const free = { "c0/h0": ALL, "c0/h1": 0b1111, "c0/h2": 0b1111, "c0/h3": 0b1111 };
  const predictor = predictorOf(4, (pick) => (pick.length === 1 ? 200 : 100 - pick.length));
  const crowded = openBandwidth(
    { predictorOf: () => predictor },
    { leases: new Map(), granted: [{ gpus: gpus(["c0/h1", 0b11110000], ["c0/h2", 0b11110000]) }] },
  );
  const placed = place({
    free,
    demand: { gpus: 12 },
    ...(crowded && { bandwidth: crowded.starting }),
  });
  expect(placed.gpus?.map(({ host: id }) => id)).toEqual([host("c0/h0"), host("c0/h3")]);
});

test("the searches of a cycle end when their work is used up", () => {
  const predictor = predictorOf(2);
  const bandwidth = openBandwidth(
    { predictorOf: () => predictor },
    { leases: new Map(), granted: [] },
  );
  expect(bandwidth?.starting.predictorOf(clusterId("c0"))).toBe(predictor);
  bandwidth?.starting.spend?.(1e6);
  const placed = place({ free: TWO_SIXES, ...(bandwidth && { bandwidth: bandwidth.starting }) });
  expect(placed.gpus).toEqual(place({ free: TWO_SIXES }).gpus);
  expect(placed.bandwidth?.fallback).toContain("used up");
});
