/** @file What bandwidth models are told of tables: sets over hosts, each once, news only where a figure is new. */

import type { Client } from "@temporalio/client";
import { describe, expect, it } from "vitest";
import { tellModel, wordsOf } from "../../../cli/measuring/tell-model.ts";
import type { BandwidthTable } from "../../../domain/bandwidth/bandwidth-table.ts";
import { clusterId } from "../../../domain/values/ids.ts";
import { NO_MEMORY, takeIn } from "../../../workflows/learners/model-memory.ts";

const table = (sets: BandwidthTable["sets"]): BandwidthTable => ({
  hosts: ["c/h1", "c/h2"],
  intraHost: [null, null],
  sets,
});

const PAIR = { masks: [1, 3], gbs: [40, 44] };

describe("a table of measured sets, told to the bandwidth model", () => {
  it("is a word for each set over several hosts, with the mean of its readings", () => {
    const inside = { masks: [3, 0], gbs: [300] };
    expect(wordsOf({ table: table([PAIR, inside]), atMsOf: () => 7 })).toMatchObject([
      {
        gbs: 42,
        atMs: 7,
        gpus: [
          { host: "c/h1", mask: 1 },
          { host: "c/h2", mask: 3 },
        ],
      },
    ]);
  });

  it("is heard once however often it is told; another figure of a set is another measurement", () => {
    const words = wordsOf({ table: table([PAIR, { masks: [3, 3], gbs: [70] }]) });
    const once = takeIn(NO_MEMORY, words, "c");
    expect([once.samples.length, once.fresh, once.unfit]).toEqual([2, 2, 0]);
    const twice = takeIn(once, words, "c");
    expect([twice.samples.length, twice.fresh, twice.repeated]).toEqual([2, 2, 2]);
    const anew = takeIn(twice, wordsOf({ table: table([{ ...PAIR, gbs: [20] }]) }), "c");
    expect([anew.samples.length, anew.fresh]).toEqual([3, 3]);
  });

  it("goes in batches to the workflow of its cluster", async () => {
    const asked: { readonly id: string; readonly words: number }[] = [];
    const workflow = {
      signalWithStart: (
        _: string,
        { workflowId, signalArgs }: { workflowId: string; signalArgs: [unknown[]] },
      ) => {
        asked.push({ id: workflowId, words: signalArgs[0].length });
        return Promise.resolve();
      },
    };
    const withAbortSignal = (_: AbortSignal, call: () => Promise<unknown>) => call();
    // The parts of a client that are used here.
    const client = { workflow, withAbortSignal } as unknown as Client;
    const sets = Array.from({ length: 130 }, (_, at) => ({ masks: [at + 1, 1], gbs: [50] }));
    const told = await tellModel(client, "north", { cluster: clusterId("c"), table: table(sets) });
    expect(told).toBe(130);
    expect(asked).toEqual([
      { id: "orbweaver-bandwidth-north-c", words: 100 },
      { id: "orbweaver-bandwidth-north-c", words: 30 },
    ]);
  });
});
