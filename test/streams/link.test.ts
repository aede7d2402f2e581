/** @file Links over connections that break at every step: nothing lost, nothing twice, bounded memory, and faults of a peer that does not keep to the protocol. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  frameBytes,
  LinkFault,
  MAX_DATA_BYTES,
  MAX_FRAME_BYTES,
  parseFrame,
  type Frame,
} from "../../streams/frame.ts";
import { createLink, WINDOW_BYTES, type Link } from "../../streams/link.ts";

const CHANNEL = 1;

describe("frames", () => {
  it.each<readonly [name: string, frame: Frame]>([
    ["data", { kind: "data", channel: 7, offset: 2 ** 40, bytes: Buffer.from("abc") }],
    ["end", { kind: "end", channel: 0, offset: 9 }],
    ["taken", { kind: "taken", channel: 2 ** 32 - 1, offset: 0 }],
    ["resume", { kind: "resume", pairing: 3, rows: [{ channel: 1, received: 5, taken: 4 }] }],
  ])("of kind %s are read as they were written", (_name, frame) => {
    expect(parseFrame(frameBytes(frame))).toEqual(frame);
  });

  it.each<readonly [name: string, bytes: Buffer]>([
    ["short", Buffer.alloc(10)],
    ["oversized", Buffer.alloc(MAX_FRAME_BYTES + 1)],
    ["of an unknown kind", Buffer.alloc(11, 9)],
    ["data without bytes", Buffer.alloc(11)],
    ["a resume with half a row", Buffer.concat([Buffer.from([3]), Buffer.alloc(18)])],
    ["an end with bytes", Buffer.concat([Buffer.from([1]), Buffer.alloc(12)])],
  ])("that are %s are faults", (_name, bytes) => {
    expect(() => parseFrame(bytes)).toThrow(LinkFault);
  });
});

/** Two ends with messages on their way, which a break loses. */
function linked() {
  const got: Buffer[] = [];
  const held: (() => void)[] = [];
  let isEnded = false;
  let rooms = 0;
  const toReader: Buffer[] = [];
  const toWriter: Buffer[] = [];
  const writer = createLink({
    onData: (_channel, _bytes, taken) => taken(),
    onEnd: () => undefined,
    onRoom: () => (rooms += 1),
  });
  const reader = createLink({
    onData: (_channel, bytes, taken) => {
      got.push(Buffer.from(bytes));
      held.push(taken);
    },
    onEnd: () => (isEnded = true),
    onRoom: () => undefined,
  });
  for (const link of [writer, reader]) link.open(CHANNEL);
  let pairing = 0;
  return {
    ...{ writer, reader, toReader, toWriter, held },
    text: () => Buffer.concat(got).toString("latin1"),
    isEnded: () => isEnded,
    rooms: () => rooms,
    pair() {
      pairing += 1;
      writer.attach(pairing, (frame) => toReader.push(frame));
      reader.attach(pairing, (frame) => toWriter.push(frame));
    },
    part(loses: boolean) {
      writer.detach();
      reader.detach();
      if (loses) for (const queue of [toReader, toWriter]) queue.length = 0;
    },
    take(count: number) {
      for (let left = count; left > 0; left -= 1) held.shift()?.();
    },
    pass(queue: Buffer[], to: Link, count: number) {
      for (const frame of queue.splice(0, count)) to.receive(frame);
    },
  };
}

describe("a link", () => {
  it("carries bytes once and in order, whatever is lost between pairings, and late frames of a former pairing change nothing", () => {
    const step = fc.oneof(
      fc.record({ act: fc.constant("write" as const), size: fc.integer({ min: 1, max: 200_000 }) }),
      fc.record({ act: fc.constantFrom("pass", "answer", "take"), size: fc.nat({ max: 6 }) }),
      fc.record({ act: fc.constantFrom("lose", "part", "pair"), size: fc.constant(0) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const pair = linked();
        let sent = "";
        let mayWrite = true;
        let byte = 0;
        pair.pair();
        for (const { act, size } of steps) {
          if (act === "write" && mayWrite) {
            const text = String.fromCharCode(33 + (byte++ % 90)).repeat(size);
            sent += text;
            mayWrite = pair.writer.write(CHANNEL, Buffer.from(text, "latin1"));
          } else if (act === "pass") pair.pass(pair.toReader, pair.reader, size);
          else if (act === "answer") pair.pass(pair.toWriter, pair.writer, size);
          else if (act === "take") pair.take(size);
          else if (act === "lose" || act === "part") pair.part(act === "lose");
          else if (act === "pair") pair.pair();
          if (pair.rooms() > 0) mayWrite = true;
          expect(sent.startsWith(pair.text())).toBe(true);
        }
        pair.part(false);
        pair.pair();
        pair.writer.end(CHANNEL);
        for (let round = 0; !pair.writer.isDrained() && round < 1_000; round += 1) {
          pair.pass(pair.toReader, pair.reader, 100);
          pair.take(100);
          pair.pass(pair.toWriter, pair.writer, 100);
        }
        expect(pair.text() === sent).toBe(true);
        expect(pair.isEnded()).toBe(true);
        expect(pair.writer.isDrained()).toBe(true);
      }),
    );
  });

  it("tells a writer to wait when its reader takes nothing, and to go on when it does", () => {
    const pair = linked();
    pair.pair();
    pair.pass(pair.toReader, pair.reader, 1);
    pair.pass(pair.toWriter, pair.writer, 1);
    let written = 0;
    while (pair.writer.write(CHANNEL, Buffer.alloc(MAX_DATA_BYTES))) written += MAX_DATA_BYTES;
    expect(written).toBeLessThan(WINDOW_BYTES);
    pair.pass(pair.toReader, pair.reader, 100);
    expect(pair.rooms()).toBe(0);
    pair.take(100);
    pair.pass(pair.toWriter, pair.writer, 100);
    expect(pair.rooms()).toBe(1);
  });

  const resumed = (): { readonly link: Link; readonly send: (frame: Frame) => void } => {
    const link = createLink({
      onData: () => undefined,
      onEnd: () => undefined,
      onRoom: () => undefined,
    });
    link.open(CHANNEL);
    link.attach(5, () => undefined);
    const send = (frame: Frame): void => link.receive(frameBytes(frame));
    send({ kind: "resume", pairing: 5, rows: [] });
    return { link, send };
  };
  const data = (offset: number, size: number, channel = CHANNEL): Frame => ({
    ...{ kind: "data", channel, offset, bytes: Buffer.alloc(size) },
  });

  it("refuses more than its window, gaps, channels that nobody opened, and words about what was never sent", () => {
    const flooded = resumed();
    expect(() => {
      for (let at = 0; at <= WINDOW_BYTES; at += MAX_DATA_BYTES)
        flooded.send(data(at, MAX_DATA_BYTES));
    }).toThrow("window");
    expect(() => resumed().send(data(1, 1))).toThrow("missing");
    expect(() => resumed().send(data(0, 1, 9))).toThrow("not opened");
    expect(() => resumed().send({ kind: "taken", channel: CHANNEL, offset: 1 })).toThrow(LinkFault);
    expect(() => resumed().send({ kind: "end", channel: CHANNEL, offset: 4 })).toThrow(LinkFault);
  });

  it("holds no more pieces than bytes need, however small the frames are that its reader does not take", () => {
    const frames = MAX_DATA_BYTES + 1_000;
    const pieces: number[] = [];
    const taken: (() => void)[] = [];
    const reader = createLink({
      onData: (_channel, bytes, isTaken) => {
        pieces.push(bytes.length);
        taken.push(isTaken);
      },
      onEnd: () => undefined,
      onRoom: () => undefined,
    });
    reader.open(CHANNEL);
    reader.attach(5, () => undefined);
    reader.receive(frameBytes({ kind: "resume", pairing: 5, rows: [] }));
    for (let at = 0; at < frames; at += 1) reader.receive(frameBytes(data(at, 1)));
    expect(reader.heldBytes()).toBe(frames);
    while (taken.length > 0) taken.shift()?.();
    // The first in hand, then whole blocks.
    expect(pieces).toEqual([1, MAX_DATA_BYTES, 999]);
    expect(reader.heldBytes()).toBe(0);
  });

  it("believes nothing before the other end has said where to go on, in this pairing", () => {
    const seen: string[] = [];
    const link = createLink({
      onData: (_channel, bytes) => seen.push(bytes.toString()),
      onEnd: () => undefined,
      onRoom: () => undefined,
    });
    link.open(CHANNEL);
    link.attach(2, () => undefined);
    const late: Frame = { kind: "data", channel: CHANNEL, offset: 0, bytes: Buffer.from("late") };
    link.receive(frameBytes({ kind: "resume", pairing: 1, rows: [] }));
    link.receive(frameBytes(late));
    expect(seen).toEqual([]);
    link.receive(frameBytes({ kind: "resume", pairing: 2, rows: [] }));
    link.receive(frameBytes({ ...late, bytes: Buffer.from("now") }));
    expect(seen).toEqual(["now"]);
  });
});
