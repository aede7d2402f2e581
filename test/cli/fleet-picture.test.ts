/** @file The picture of a fleet: every GPU of the ledger once and in its colour, and no word of a submitter as markup. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import fc from "fast-check";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { fleetPicture } from "../../cli/picture/fleet-picture.ts";
import { createSvgBrush } from "../../cli/picture/svg-brush.ts";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import { MODES } from "../../page/map/colours.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { foldedOf } from "../support/recorded-fleet.ts";

const FOLDER = path.join(import.meta.dirname, "../histories");
const codecs = createConverters().worker.payloadCodecs ?? [];

/** The ledger with most leases of a recorded fleet. */
async function busiest(file: string): Promise<Ledger> {
  const history = historyFromJSON(JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")));
  const events = history.events ?? [];
  const run = await openFollowedRun("run-1", events[0] ?? {}, codecs);
  const ledgers = (await foldedOf(run, events)).map(({ ledger }) => ledger);
  const most = Math.max(...ledgers.map(({ leases }) => leases.size));
  return ledgers.find(({ leases }) => leases.size === most) ?? run.ledger();
}

/** The names of the elements; throws unless each is closed in its turn. */
function elements(svg: string): readonly string[] {
  const open: string[] = [];
  const names: string[] = [];
  for (const [, slash, name = "", selfClosing] of svg.matchAll(
    /<(\/?)([a-z]+)(?:\s+[a-z-]+="[^"<]*")*\s*(\/?)>|</gi,
  )) {
    if (name === "") throw new Error("a < that opens no element");
    if (slash === "/") expect(open.pop()).toBe(name);
    else {
      names.push(name);
      if (selfClosing !== "/") open.push(name);
    }
  }
  expect(open).toEqual([]);
  return names;
}

const fillsOf = (svg: string): ReadonlyMap<string, number> => {
  const map = svg.slice(svg.lastIndexOf("<g transform"));
  return new Map(
    [...map.matchAll(/<path fill="(#[0-9a-f]{6})" d="([^"]*)"/g)].map(
      ([, colour = "", drawn = ""]) => [colour, drawn.split("M").length - 1] as const,
    ),
  );
};

const files = readdirSync(FOLDER).filter((file) => /^fleet\..*\.json$/.test(file));

describe("a picture of a fleet", () => {
  it.each(files)("of %s has each GPU once in each mode", async (file) => {
    const ledger = await busiest(file);
    const gpus = ledger.shape.clusters
      .flatMap(({ hosts }) => hosts)
      .reduce((sum, host) => sum + host.gpuCount, 0);
    for (const mode of MODES) {
      const svg = fleetPicture({ fleet: "f", ledger, mode, nowMs: 1_000_000 });
      expect(new Set(elements(svg))).toEqual(new Set(["svg", "rect", "g", "text", "path"]));
      const fills = [...fillsOf(svg)].filter(([colour]) => colour !== "#ffffff");
      expect(fills.reduce((sum, [, count]) => sum + count, 0)).toBe(gpus);
    }
  });

  it("shows words of others as words", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (fleet) => {
        const brush = createSvgBrush();
        brush.fillText(fleet, 0, 0);
        expect(elements(brush.group(0, 0))).toEqual(["g", "text"]);
      }),
    );
  });

  it("draws nothing of an empty path", () => {
    const brush = createSvgBrush();
    brush.beginPath();
    brush.fill();
    brush.stroke();
    expect(elements(brush.group(0, 0))).toEqual(["g"]);
  });
});
