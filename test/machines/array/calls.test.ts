/** @file Calls of its lobby that reach a job array while it tells its fleet that it is over. */

import { describe, expect, it } from "vitest";
import { CALLED_END_RULES } from "../../../protocol/control-contract.ts";
import { playArray, type PlayedArray } from "./builders.ts";

const delivered = { kind: "delivered" } as const;

/** Its end is on its way to the fleet. */
function ending(rules: number): PlayedArray {
  const played = playArray({ entry: { rules } });
  played.feed({ kind: "cancel" });
  expect(played.entries().at(-1)).toMatchObject({ kind: "end", seq: 1 });
  return played;
}

const call = (played: PlayedArray): void =>
  played.feed({ kind: "call-in", call: { credit: 7, seq: 1, round: 0 } });

function leave(played: PlayedArray): void {
  const [word] = played.open("leave-lobby");
  if (word === undefined) throw new Error("the array has not left its lobby");
  expect(word.exit).toMatchObject({ jobId: "played", seq: 1 });
  played.answer(word, { kind: "told", id: word.id, result: delivered });
}

describe("an array that is called while its end is under way", () => {
  it("gives the credit back, and is over once its lobby has it", () => {
    const played = ending(CALLED_END_RULES);
    call(played);
    played.told();
    expect(played.outcome()).toBeUndefined();
    leave(played);
    expect(played.outcome()).toEqual({ kind: "cancelled" });
  });

  it("is over once its fleet knows, where the lobby had the credit before", () => {
    const played = ending(CALLED_END_RULES);
    call(played);
    leave(played);
    expect(played.outcome()).toBeUndefined();
    played.told();
    expect(played.outcome()).toEqual({ kind: "cancelled" });
  });

  it("hears a call that comes together with the fleet's answer", () => {
    const played = ending(CALLED_END_RULES);
    const [word] = played.open("tell");
    played.feed(
      { kind: "call-in", call: { credit: 7, seq: 1, round: 0 } },
      { kind: "told", id: word?.id ?? 0, result: delivered },
    );
    leave(played);
    expect(played.outcome()).toEqual({ kind: "cancelled" });
  });

  it("kept it under former rules", () => {
    const played = ending(CALLED_END_RULES - 1);
    call(played);
    expect(played.open("leave-lobby")).toEqual([]);
    played.told();
    expect(played.outcome()).toEqual({ kind: "cancelled" });
  });
});
