import fc from "fast-check";
import { expect, it } from "vitest";
import { EMPTY_QUEUE, pushed, taken, type Queue } from "../../lib/queue.ts";

it("gives back what was put in, in its order, and never changes", () => {
  const happening = fc.oneof(
    fc.record({ kind: fc.constant("push" as const) }),
    fc.record({ kind: fc.constant("take" as const), most: fc.nat(5) }),
  );
  fc.assert(
    fc.property(fc.array(happening), (happenings) => {
      let queue: Queue<number> = EMPTY_QUEUE;
      const model: number[] = [];
      happenings.forEach((each, at) => {
        if (each.kind === "push") {
          queue = pushed(queue, at);
          model.push(at);
        } else {
          const before = queue;
          const { values, rest } = taken(before, each.most);
          expect(taken(before, each.most).values).toEqual(values);
          expect(values).toEqual(model.splice(0, each.most));
          queue = rest;
        }
        expect(queue.size).toBe(model.length);
      });
    }),
  );
});
