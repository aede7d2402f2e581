import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { lastLines, readLog } from "../../agent/shim/log-reader.ts";
import { openRankLog } from "../../agent/shim/rank-log.ts";
import { orphanedHead, unfinishedTail } from "../../agent/system/utf8-cut.ts";
import {
  eventually,
  folder,
  orderOf,
  queryOf,
  removeFolders,
  stopOf,
  testAgent,
} from "./fixture.ts";
import type { LogChunk } from "../../protocol/agent-contract.ts";
import { caseCount } from "../support/case-count.ts";

afterEach(removeFolders);

const LARGE = { partBytes: 1_000, parts: 100 };

describe("a rank's log", () => {
  it("reads back what was written, however it was written, cut into parts and read in pieces", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: "grapheme", maxLength: 20 }), { maxLength: 20 }),
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 40 }),
        (pieces, partBytes, maxBytes) => {
          const dir = folder();
          const log = openRankLog(nodeSystem.files, dir, { partBytes, parts: 1_000 });
          for (const piece of pieces) log.write("out", Buffer.from(piece));
          log.end("out");
          let text = "";
          let offset = 0;
          for (;;) {
            const slice = readLog(nodeSystem.files, dir, { offset, maxBytes, isFinal: true });
            if (slice.nextOffset === offset) break;
            expect(slice.droppedBytes).toBe(0);
            expect(slice.text).not.toContain("\ufffd");
            text += slice.text;
            offset = slice.nextOffset;
          }
          expect(text).toBe(pieces.join(""));
        },
      ),
      { numRuns: caseCount(60) },
    );
  });

  it("keeps the newest parts, and says how many bytes of the asked ones are gone", () => {
    const dir = folder();
    const log = openRankLog(nodeSystem.files, dir, { partBytes: 10, parts: 2 });
    for (let line = 0; line < 10; line += 1)
      log.write("out", Buffer.from(`line ${line} \n`.slice(0, 8)));
    expect(readdirSync(dir)).toHaveLength(2);
    const slice = readLog(nodeSystem.files, dir, { offset: 5, maxBytes: 1_000, isFinal: false });
    expect(slice).toMatchObject({ nextOffset: 80, totalBytes: 80, droppedBytes: 55 });
    expect(slice.text).toHaveLength(20);
  });

  it("makes its folder with the first output, and goes on after what an earlier one has written there", () => {
    const dir = join(folder(), "log");
    const first = openRankLog(nodeSystem.files, dir, { partBytes: 10, parts: 2 });
    first.end("out");
    expect(existsSync(dir)).toBe(false);
    first.write("out", Buffer.from("first try, long\n"));
    first.close();
    openRankLog(nodeSystem.files, dir, { partBytes: 10, parts: 2 }).write(
      "err",
      Buffer.from("second\n"),
    );
    expect(
      readLog(nodeSystem.files, dir, { offset: 0, maxBytes: 100, isFinal: true }),
    ).toMatchObject({
      droppedBytes: 10,
      text: " long\nsecond\n",
    });
  });

  it("counts a negative offset from the end and starts at a whole character", () => {
    const dir = folder();
    const log = openRankLog(nodeSystem.files, dir, LARGE);
    log.write("out", Buffer.from("grüße"));
    expect(
      readLog(nodeSystem.files, dir, { offset: -2, maxBytes: 100, isFinal: false }),
    ).toMatchObject({
      text: "e",
      nextOffset: 7,
      droppedBytes: 0,
    });
    expect(
      readLog(nodeSystem.files, dir, { offset: -99, maxBytes: 100, isFinal: false }).text,
    ).toBe("grüße");
  });

  it("never lets one stream into the middle of the other's character", () => {
    const dir = folder();
    const log = openRankLog(nodeSystem.files, dir, LARGE);
    const [first, ...rest] = Buffer.from("ü");
    log.write("out", Buffer.from([first ?? 0]));
    log.write("err", Buffer.from("!"));
    log.write("out", Buffer.from(rest));
    expect(readLog(nodeSystem.files, dir, { offset: 0, maxBytes: 100, isFinal: false }).text).toBe(
      "!ü",
    );
  });

  it("gives out at the end what never became a whole character", () => {
    const dir = folder();
    const log = openRankLog(nodeSystem.files, dir, LARGE);
    log.write("out", Buffer.from([0x61, 0xe2, 0x82]));
    log.end("out");
    expect(readLog(nodeSystem.files, dir, { offset: 0, maxBytes: 100, isFinal: false }).text).toBe(
      "a",
    );
    expect(readLog(nodeSystem.files, dir, { offset: 0, maxBytes: 100, isFinal: true }).text).toBe(
      "a\ufffd",
    );
  });

  it("goes on after a time in which the disk took nothing, and says what was lost", () => {
    const dir = join(folder(), "log");
    const log = openRankLog(nodeSystem.files, dir, LARGE);
    // What stands in the place of its folder keeps it from making a part, as a full disk does.
    writeFileSync(dir, "");
    log.write("out", Buffer.from("lost\n"));
    rmSync(dir);
    log.write("out", Buffer.from("kept\n"));
    const { text } = readLog(nodeSystem.files, dir, { offset: 0, maxBytes: 1_000, isFinal: false });
    expect(text).toBe("\n[orbweaver: 5 bytes were lost, the disk did not take them]\nkept\n");
  });

  it("has last lines that are whole", () => {
    const dir = folder();
    writeFileSync(join(dir, "0000000000000000.log"), "first line\nsecond line\nthird\n");
    expect(lastLines(nodeSystem.files, dir, 15)).toBe("third\n");
    expect(lastLines(nodeSystem.files, dir, 1_000)).toBe("first line\nsecond line\nthird\n");
    expect(lastLines(nodeSystem.files, join(dir, "none"), 10)).toBe("");
  });

  it("gives reports its last lines without tokens, which only its readers may see", () => {
    const dir = folder();
    const log = openRankLog(nodeSystem.files, dir, LARGE);
    const said = (token: string): string => `needs (Authorization: Bearer ${token}); port taken\n`;
    log.write("out", Buffer.from(said("aB3_-z.~/+=")));
    expect(lastLines(nodeSystem.files, dir, 1_000)).toBe(said("***"));
    const whole = { offset: 0, maxBytes: 1_000, isFinal: true };
    expect(readLog(nodeSystem.files, dir, whole).text).toBe(said("aB3_-z.~/+="));
  });

  it.each([
    { text: "a", cutBytes: 0, wantTail: 0 },
    { text: "ü", cutBytes: 1, wantTail: 1 },
    { text: "€", cutBytes: 1, wantTail: 2 },
    { text: "😀", cutBytes: 1, wantTail: 3 },
    { text: "😀", cutBytes: 3, wantTail: 1 },
    { text: "😀", cutBytes: 0, wantTail: 0 },
  ])(
    "cut $cutBytes bytes before the end of '$text' ends $wantTail bytes into a character",
    ({ text, cutBytes, wantTail }) => {
      const bytes = Buffer.from(`x${text}`);
      expect(unfinishedTail(bytes.subarray(0, bytes.length - cutBytes))).toBe(wantTail);
      expect(orphanedHead(Buffer.from(text).subarray(1))).toBe(Buffer.from(text).length - 1);
    },
  );
});

describe("readLogs", () => {
  it("waits for output, follows it while the run writes, and says when it is over", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(`echo one; while [ ! -e ${dir}/go ]; do sleep 0.02; done; echo two`);
    const running = agent.runs.run(order);
    await eventually(() => agent.task.beats.length === 1);
    const first = await agent.orders.readLogs(queryOf(order, { waitMs: 60_000 }));
    expect(first).toEqual({ text: "one\n", nextOffset: 4, droppedBytes: 0, isEnd: false });
    const waiting = agent.orders.readLogs(
      queryOf(order, { offset: first.nextOffset, waitMs: 60_000 }),
    );
    writeFileSync(join(dir, "go"), "");
    const second = await waiting;
    expect(second).toMatchObject({ text: "two\n", nextOffset: 8 });
    const rest: LogChunk = await agent.orders.readLogs(
      queryOf(order, { offset: 8, waitMs: 60_000 }),
    );
    expect(rest).toEqual({ text: "", nextOffset: 8, droppedBytes: 0, isEnd: true });
    await running;
  });

  it("answers with nothing when the wait is over", async () => {
    const agent = testAgent();
    const order = orderOf("exec sleep 60");
    const running = agent.runs.run(order);
    await eventually(() => agent.task.beats.length === 1);
    expect(await agent.orders.readLogs(queryOf(order, { waitMs: 50 }))).toEqual({
      text: "",
      nextOffset: 0,
      droppedBytes: 0,
      isEnd: false,
    });
    await agent.orders.stop(stopOf(order));
    await running;
  });

  it("lets only a few reads wait, so that an order never lacks a slot", async () => {
    const agent = testAgent({ maxWaitingReads: 1 });
    const order = orderOf("exec sleep 60");
    const running = agent.runs.run(order);
    await eventually(() => agent.task.beats.length === 1);
    const ended: string[] = [];
    const query = queryOf(order, { waitMs: 600_000 });
    const waiting = agent.orders.readLogs(query).finally(() => ended.push("first"));
    const { text } = await agent.orders.readLogs(query).finally(() => ended.push("second"));
    expect([text, ended]).toEqual(["", ["second"]]);
    await agent.orders.stop(stopOf(order));
    expect((await waiting).isEnd).toBe(true);
    await running;
  });

  it("keeps a noisy rank within its parts while it runs", async () => {
    const agent = testAgent({ log: { partBytes: 10_000, parts: 2 } });
    const order = orderOf("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done");
    await agent.runs.run(order);
    const tail = await agent.orders.readLogs(queryOf(order, { offset: -20 }));
    expect(tail.text.endsWith("line 4999\n")).toBe(true);
    const all = await agent.orders.readLogs(queryOf(order));
    expect(all.droppedBytes).toBe(all.nextOffset - Buffer.byteLength(all.text));
    expect(all.droppedBytes).toBeGreaterThan(20_000);
    expect(all.isEnd).toBe(true);
  });

  it.each([
    { name: "a lease that it does not know", over: { leaseId: "lease-99" as never } },
    { name: "a job whose lease it is not", over: { jobId: "job-8" as never } },
    { name: "a rank that runs elsewhere", over: { rank: 3 } },
  ])("refuses $name", async ({ over }) => {
    const agent = testAgent();
    const order = orderOf("exit 0");
    await agent.runs.run(order);
    await expect(agent.orders.readLogs(queryOf(order, over))).rejects.toMatchObject({
      type: "RUN_UNKNOWN",
    });
  });
});
