/** @file A walk through a queue by kind: whole kinds are dismissed and recalled, and the requests that stay keep their place. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { orderedQueue } from "../../../scheduling/queue/kind-queue.ts";
import { pendingOf } from "./pool.ts";
import { caseCount } from "../../support/case-count.ts";

interface Step {
  readonly does: "next" | "dismiss" | "recall";
  /** Places in the queue of the requests that stay when the kind of the last one is dismissed. */
  readonly stays: readonly number[];
}

const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({
    does: fc.constantFrom("next", "next", "next", "dismiss", "recall"),
    stays: fc.array(fc.nat(30), { maxLength: 4 }),
  }),
  { maxLength: 60 },
);

test("gives what a list gives that is asked who comes after the last one and is not passed over", () => {
  const kinds = fc.array(fc.nat(4), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(kinds, steps, (all, does) => {
      const requests = all.map((gpus, at) =>
        pendingOf(
          `j${String(at)}`,
          { class: "training", tenant: "t", gpus: gpus + 1, atMs: 0, runMs: 1 },
          at,
        ),
      );
      const walked = orderedQueue(
        (a, b) => a.arrival < b.arrival,
        ({ gang }) => String(gang.gpus),
      );
      for (const request of [...requests].reverse()) walked.add(request);
      const walk = walked.walk();
      let last = -1;
      const passedOver = new Map<number, ReadonlySet<number>>();
      for (const { does: what, stays } of does) {
        if (what === "recall") {
          walk.recall();
          passedOver.clear();
        } else if (what === "dismiss") {
          const request = requests[last];
          if (request === undefined) continue;
          walk.dismiss(
            request,
            stays.flatMap((at) => requests[at] ?? []),
          );
          const kind = request.gang.gpus;
          if (!passedOver.has(kind)) passedOver.set(kind, new Set(stays));
        } else {
          const want = requests.findIndex(
            ({ gang }, at) => at > last && (passedOver.get(gang.gpus)?.has(at) ?? true),
          );
          const next = walk.next();
          expect(next?.jobId).toBe(requests[want]?.jobId);
          if (want >= 0) last = want;
        }
      }
    }),
    { numRuns: caseCount(300) },
  );
});
