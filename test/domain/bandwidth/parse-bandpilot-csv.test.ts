/** @file BandPilot's measurements become tables: every mask in its slot, nothing measured that was not. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import {
  bandwidthLookup,
  intraHostGbs,
  meanGbs,
  withIntraHost,
  type BandwidthTable,
  type IntraHostTable,
} from "../../../domain/bandwidth/bandwidth-table.ts";
import { parseBandpilotCsv } from "../../../domain/bandwidth/parse-bandpilot-csv.ts";
import { problemText } from "../../../domain/values/problem.ts";
import { dataText } from "../samples.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { membersOf } from "../../../lib/bits.ts";

function parsed(text: string, source = "table.csv"): BandwidthTable {
  const result = parseBandpilotCsv(text, { source });
  if (result.kind === "refused") throw new Error(JSON.stringify(result.problems));
  return result.table;
}

function problemsOf(text: string): readonly string[] {
  const result = parseBandpilotCsv(text, { source: "t" });
  if (result.kind === "parsed") throw new Error("was not refused");
  return result.problems.map((problem) => problemText("t", problem));
}

/** The table of the named host. */
function hostTable(table: BandwidthTable, host: string): IntraHostTable {
  const found = table.intraHost[table.hosts.indexOf(host)];
  if (found === undefined || found === null) throw new Error(`no table of ${host}`);
  return found;
}

describe("all sets of GPUs inside eight hosts", () => {
  const table = parsed(dataText("bandpilot/intra_host_16MB.csv"));

  test("each host has 247 sets of two GPUs and more, and no figure for one GPU or none", () => {
    expect(table.hosts).toEqual([
      ...["4090", "A6000", "A800", "V100"],
      ...["H100_26", "H100_27", "H100_28", "H100_29"],
    ]);
    for (const intra of table.intraHost) {
      expect(intra?.gpuCount).toBe(8);
      expect(intra?.gbsByMask).toHaveLength(256);
      for (const [mask, gbs] of (intra?.gbsByMask ?? []).entries()) {
        expect(gbs === null).toBe(popCount(mask) < 2);
      }
    }
  });

  test("every row stands in the slot of its mask", () => {
    for (const line of dataText("bandpilot/intra_host_16MB.csv").trim().split("\n").slice(1)) {
      const [host = "", mask, gpus = "", , gbs] = line.split(",");
      expect(membersOf(Number(mask)).join("+")).toBe(gpus);
      const want = Number(gbs) === 0 ? undefined : Number(gbs);
      expect(intraHostGbs(hostTable(table, host), Number(mask))).toBe(want);
    }
  });
});

describe("sets over four H100 hosts", () => {
  const table = parsed(dataText("bandpilot/h100_inter_host_16MB.csv"));
  const lookup = bandwidthLookup(table);

  test("493 sets, 19 of them measured twice, every value kept", () => {
    expect(table).toMatchObject({ op: "all_reduce", messageBytes: 2 ** 24 });
    expect(table.hosts).toEqual(["h26", "h27", "h28", "h29"]);
    expect(table.sets).toHaveLength(493);
    expect(table.sets.filter(({ gbs }) => gbs.length === 2)).toHaveLength(19);
    expect(table.sets.reduce((sum, { gbs }) => sum + gbs.length, 0)).toBe(512);
  });

  test.each([
    { masks: [15, 15, 0, 0], want: 142.43 },
    { masks: [63, 3, 0, 0], want: 74.01 },
    { masks: [255, 3, 0, 0], want: (75.11 + 65.1) / 2 },
    { masks: [3, 0, 0, 0], want: 204.92 },
    { masks: [1, 0, 0, 0], want: undefined },
    { masks: [0, 0, 0, 3], want: undefined },
  ])("$masks give $want GB/s", ({ masks, want }) => {
    const gbs = lookup(masks);
    if (want === undefined) expect(gbs).toBeUndefined();
    else expect(gbs).toBeCloseTo(want, 6);
  });

  test("a set inside one host is answered by that host's own table, once it is known", () => {
    const intra = parsed(dataText("bandpilot/intra_host_16MB.csv"));
    const names = ["26", "27", "28", "29"];
    const byHost = new Map(names.map((name) => [`h${name}`, hostTable(intra, `H100_${name}`)]));
    const joined = bandwidthLookup(withIntraHost(table, byHost));
    expect(joined([3, 0, 0, 0])).toBe(206.5);
    expect(joined([0, 0, 0, 3])).toBe(intraHostGbs(hostTable(intra, "H100_29"), 3));
    expect(joined([15, 15, 0, 0])).toBe(142.43);
  });

  test("the mean of a set is that of its measurements", () => {
    expect(meanGbs({ masks: [3], gbs: [1, 2, 6] })).toBe(3);
  });
});

describe("raw logs", () => {
  const head = "OP,GPU_num,GPU_used,data_size(B),Bandwidth(GB/s)";
  test("GPUs written as digits, the host from the file name", () => {
    const text = `${head}\r\nall_reduce_perf,1,0,16777216,0.00\r\nall_reduce_perf,3,013,16777216,99.5`;
    const table = parsed(text, "logs/H100_7_bandwidth_data_8.txt");
    expect(table.hosts).toEqual(["H100_7"]);
    expect(hostTable(table, "H100_7").gbsByMask[0b1011]).toBe(99.5);
    expect(hostTable(table, "H100_7").gpuCount).toBe(4);
  });

  test("GPUs written as lists by host", () => {
    const text =
      '"OP","Total_GPU_Count","GPU_Mapping_Across_Nodes","data_size(B)","Bandwidth(GB/s)"\n' +
      '"all_reduce_perf",3,"[[0,1],[2],[]]",16777216,41.62\n';
    expect(parsed(text)).toEqual({
      hosts: ["host0", "host1", "host2"],
      intraHost: [null, null, null],
      sets: [{ masks: [3, 4, 0], gbs: [41.62] }],
      op: "all_reduce",
      messageBytes: 2 ** 24,
    });
  });

  const raw = fileURLToPath(new URL("../../../../shared/datasets/bandpilot/raw/", import.meta.url));
  const hosts = existsSync(raw) ? ["26", "27", "28", "29"] : [];
  test.each(hosts.map((host) => ({ host })))(
    "the raw log of H100 host $host says the same as the table",
    ({ host }) => {
      const name = `H100_${host}_bandwidth_data_8.txt`;
      const log = parsed(readFileSync(`${raw}${name}`, "utf8"), name);
      const table = parsed(dataText("bandpilot/intra_host_16MB.csv"));
      expect(hostTable(log, `H100_${host}`)).toEqual(hostTable(table, `H100_${host}`));
    },
  );

  const setLogs = existsSync(raw) ? ["Pune_H100_16M.csv"] : [];
  test.each(setLogs)("the raw log of the sets, %s, says the same as the table", (name) => {
    const log = parsed(readFileSync(`${raw}${name}`, "utf8"));
    expect(log.sets).toEqual(parsed(dataText("bandpilot/h100_inter_host_16MB.csv")).sets);
  });
});

describe("refusals", () => {
  const head = "op,mask_a,mask_b,bytes,bandwidth_gbs";
  test.each([
    { name: "another header", text: "a,b\n1,2", want: /^t:1: the header is "a,b"; give host,mask/ },
    { name: "no rows", text: head, want: /^t:1: there are no rows/ },
    {
      name: "a ragged row",
      text: `${head}\nx,1,1,16`,
      want: /^t:2: the row has 4 cells and needs 5/,
    },
    {
      name: "a mask out of range",
      text: `${head}\nx,1,65536,16,5`,
      want: /^t:2: the GPUs are "65536"/,
    },
    {
      name: "a mask that is no number",
      text: `${head}\nx,1,-1,16,5`,
      want: /^t:2: the GPUs are "-1"/,
    },
    { name: "no GPU", text: `${head}\nx,0,0,16,5`, want: /^t:2: .*no GPU at all/ },
    {
      name: "a bandwidth of 0 for two GPUs",
      text: `${head}\nx,1,1,16,0.0`,
      want: /^t:2: the bandwidth is "0.0"; .*above 0/,
    },
    {
      name: "a negative bandwidth",
      text: `${head}\nx,1,1,16,-3`,
      want: /^t:2: the bandwidth is "-3"/,
    },
    { name: "no bandwidth", text: `${head}\nx,1,1,16,`, want: /^t:2: the bandwidth is ""/ },
    {
      name: "a GPU twice",
      text: "OP,GPU_used,Bandwidth(GB/s)\nx,11,5",
      want: /^t:2: the GPUs are "11"; name GPUs 0 to 15, each once/,
    },
    {
      name: "a list that is none",
      text: 'OP,GPU_Mapping_Across_Nodes,Bandwidth(GB/s)\nx,"[[0],[1]]",5\nx,"[[0],1]",5',
      want: /^t:3: the GPUs are "\[\[0\],1\]"/,
    },
  ])("$name", ({ text, want }) => {
    expect(problemsOf(text)[0]).toMatch(want);
  });

  test("all problems come at once", () => {
    expect(problemsOf(`${head}\nx,1,1,16,0\nx,1,1,16,5\nx,0,0,16,5`)).toHaveLength(2);
  });
});
