/** @file What a job has sent, as its plugin writes it: shares of time where all of it is timed, else of bytes, and nothing of a torn file. */

import { expect, test } from "vitest";
import { sentIn } from "../../agent/folder/sent-file.ts";
import { crc32Text } from "../../lib/crc32.ts";

const whole = (...lines: readonly string[]): string => {
  const body = ["orbweaver-sent 1", ...lines, ""].join("\n");
  return `${body}end ${crc32Text(body)}\n`;
};
const MiB = 2 ** 20;
const row = (
  name: string,
  { calls = 100, mib = 64, timed = calls, micros = 1_000 }: Partial<Row> = {},
): string =>
  `${name} 16777216 134217727 calls ${String(calls)} bytes ${String(calls * mib * MiB)} timed ${String(timed)} micros ${String(micros)}`;
interface Row {
  readonly calls: number;
  readonly mib: number;
  readonly timed: number;
  readonly micros: number;
}

test("sizes are means of calls, shares those of the time on the slowest rank", () => {
  const text = whole(
    row("allreduce", { mib: 64, micros: 3_000 }),
    // Half of its calls were timed.
    row("allgather", { mib: 256, timed: 50, micros: 3_500 }),
  );
  expect(sentIn(text)).toEqual([
    { collective: "all_gather", bytes: 256 * MiB, share: 0.7 },
    { collective: "all_reduce", bytes: 64 * MiB, share: 0.3 },
  ]);
});

test("where a time is not known, bytes decide", () => {
  const text = whole(
    row("allreduce", { mib: 48 }),
    row("reducescatter", { mib: 16, timed: 0, micros: 0 }),
  );
  expect(sentIn(text)?.map(({ share }) => share)).toEqual([0.75, 0.25]);
});

test.each([
  ["no calls yet", whole()],
  ["a start alone", whole(row("allreduce", { calls: 19 }))],
  ["what no policy tunes", whole(row("broadcast"))],
  ["more timed calls than calls", whole(row("allreduce", { calls: 30, timed: 31 }))],
  ["a torn file", whole(row("allreduce")).slice(0, -3)],
  ["a flipped one", whole(row("allreduce")).replace("calls 100", "calls 900")],
  ["another file", whole(row("allreduce")).replace("sent 1", "sent 2")],
])("says nothing: %s", (_name, text) => {
  expect(sentIn(text)).toBeUndefined();
});
