/** @file Which measurements of other messages a model keeps: the newest, and none that is stale. */

import { expect, test } from "vitest";
import { h100Truth } from "../../../bench/pick/truth.ts";
import { readTruthData } from "../../../bench/pick/truth-data.ts";
import { USUAL_MESSAGES } from "../../../domain/bandwidth/message-profile.ts";
import { otherMessages } from "../../../models/bandwidth/messages-measured.ts";

const { domain, samples } = h100Truth(readTruthData());
const messages = { collective: "all_reduce", bytes: 2 ** 31 } as const;
const large = samples.slice(0, 203).map(({ shares }, at) => ({ shares, gbs: at + 1, messages }));
const gbsOf = (kept: ReturnType<typeof otherMessages>): readonly number[] =>
  (kept[0]?.samples ?? []).map(({ logGbs }) => Math.round(Math.exp(logGbs)));

test("the newest are kept, the oldest go", () => {
  const kept = gbsOf(otherMessages({ domain, samples: large }, USUAL_MESSAGES));
  expect(kept).toHaveLength(200);
  expect([kept[0], kept.at(-1)]).toEqual([203, 4]);
});

test("stale ones go, from an earlier model too", () => {
  const others = otherMessages({ domain, samples: large.slice(0, 3) }, USUAL_MESSAGES);
  const stale = large.slice(0, 1).map((sample) => ({ ...sample, weight: 0.1 }));
  const request = { domain, samples: stale, from: { settings: { others } } };
  expect(gbsOf(otherMessages(request, USUAL_MESSAGES))).toEqual([3, 2]);
});
