/** @file What is known of an update when its handler asks, and what where too many have come since. */

import { beforeEach, expect, it, vi } from "vitest";
import { arrivedOrder, noteUpdates } from "../../../workflows/runtime/arrived-orders.ts";

const update = vi.hoisted(() => ({ id: "" }));
vi.mock("@temporalio/workflow", () => ({ currentUpdateInfo: () => update }));

const SEALED = { metadata: { "orbweaver-seal": Buffer.from("bound") }, data: Buffer.from("1") };
const note = (id: string) => noteUpdates([{ doUpdate: { id, input: [SEALED] } }]);
beforeEach(() => {
  update.id = "first";
  note("first");
});

it("has no flaw where the update came encrypted for its workflow", () => {
  expect(arrivedOrder(undefined)).toMatchObject({ id: "first", bytes: 1 });
  note("first");
  expect(arrivedOrder(undefined).flaw).toBeUndefined();
});

it("counts as not encrypted where a flood has pushed out what was known of it", () => {
  for (let at = 0; at < 200; at += 1) note(`flood-${String(at)}`);
  expect(arrivedOrder(undefined)).toMatchObject({ bytes: 0, flaw: "open" });
});
