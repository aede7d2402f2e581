/** @file The protocol of `bench pick`: scenarios, rivals and what their picks are worth, on the paper's data. */
import { describe, expect, test } from "vitest";
import {
  figuresOf,
  bestGbs,
  judge,
  searching,
  truthPredictor,
} from "../../../bench/pick/protocol.ts";
import { readLinks } from "../../../bench/pick/links.ts";
import * as rivals from "../../../bench/pick/rivals.ts";
import { scenariosOf } from "../../../bench/pick/scenarios.ts";
import { readTruthData } from "../../../bench/pick/truth-data.ts";
import { h100Truth } from "../../../bench/pick/truth.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { randomFrom } from "../../../lib/random.ts";
import { exactCounts } from "../../../scheduling/pick/exact-counts.ts";
import { hybrid } from "../../../bench/rivals/pick/hybrid.ts";
import { searchPick } from "../../../scheduling/pick/search-pick.ts";

const truth = h100Truth(readTruthData());
const { domain } = truth;
const links = readLinks();
const scenarios = scenariosOf(domain, { smallest: 2, largest: 32, each: 2 }, randomFrom(1, "test"));
const field = { truth, scenarios, best: bestGbs(truth, scenarios) };

test("a scenario has as many free GPUs as are asked for, and is forced when it has no more", () => {
  expect(scenarios).toHaveLength(31 * 2);
  for (const { gpus, freeMasks, isForced } of scenarios) {
    const free = freeMasks.reduce((sum, mask) => sum + popCount(mask), 0);
    expect(free).toBeGreaterThanOrEqual(gpus);
    expect(isForced).toBe(free === gpus);
  }
});

test.each([
  ["Random", rivals.randomChoice(randomFrom(1, "any"))],
  ["Default by id", rivals.defaultById],
  ["Default NUMA first", rivals.defaultNumaFirst(domain, links)],
  ["Topo", rivals.topo(domain, links)],
  ["Topo, any", rivals.topoAny(domain, links, randomFrom(1, "any"))],
])("%s picks as many free GPUs as are asked for", (_, dispatch) => {
  for (const scenario of scenarios) {
    const pick = dispatch(scenario);
    expect(pick.reduce((sum, { mask }) => sum + popCount(mask), 0)).toBe(scenario.gpus);
    for (const { host, mask } of pick) expect(mask & ~(scenario.freeMasks[host] ?? 0)).toBe(0);
  }
});

describe("with true values", () => {
  const known = truthPredictor(truth);
  const compact = rivals.topo(domain, links);

  test("exact reaches all of the best, nobody more, and the paper's hybrid less", () => {
    const exact = figuresOf(judge(field, searching(exactCounts, known, compact)));
    const paper = figuresOf(judge(field, searching(hybrid, known, compact)));
    expect(exact.worstPercent).toBe(100);
    expect(paper.gbePercent).toBeLessThan(100);
    expect(paper.gbePercent).toBeGreaterThan(figuresOf(judge(field, compact)).gbePercent);
  });

  test("our search within its budget reaches 99.5 % on the measured cluster", () => {
    const ours = figuresOf(judge(field, searching(searchPick, known, compact)));
    expect(ours.gbePercent).toBeGreaterThan(99.5);
  });
});
