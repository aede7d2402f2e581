/** @file Which room imports which: the table of tools/rooms.mjs, no circle between files, and what workflows load by value. */

import { describe, expect, it } from "vitest";
import { OPEN_ROOMS, ROOMS } from "../../tools/rooms.mjs";
import { reach, sources } from "./sources.ts";

const names = Object.keys(ROOMS);
const roomOf = (file: string): string =>
  names.find((room) => file.startsWith(`${room}/`)) ?? file.split("/")[0] ?? file;
const byFile = new Map(sources.map((source) => [source.file, source]));

describe("rooms", () => {
  it("are all in the table", () => {
    const unknown = sources
      .filter(({ file }) => file.includes("/"))
      .map(({ file }) => roomOf(file))
      .filter((room) => !names.includes(room) && !OPEN_ROOMS.includes(room));
    expect([...new Set(unknown)]).toEqual([]);
  });

  it("import only rooms below them, type imports included", () => {
    const broken = sources.flatMap(({ file, imports }) => {
      const room = roomOf(file);
      const { may } = ROOMS[room] ?? {};
      if (may === undefined) return [];
      return imports.flatMap(({ file: to }) => {
        if (to === undefined || roomOf(to) === room || may.includes(roomOf(to))) return [];
        return [`${file} imports ${to}: ${room} may import ${may.join(", ") || "nothing"}`];
      });
    });
    expect(broken).toEqual([]);
  });

  it("reach the benches by their verb alone", () => {
    const importers = sources
      .filter(({ file }) => !/^(bench|test)\//.test(file))
      .filter(({ imports }) => imports.some(({ file }) => file?.startsWith("bench/")))
      .map(({ file }) => file);
    expect(importers).toEqual(["cli/verbs/science/bench.ts"]);
  });

  it("have no circle of imports between files, type imports included", () => {
    const order = new Map<string, "open" | "done">();
    const circles: string[] = [];
    const path: string[] = [];
    const visit = (file: string): void => {
      if (order.get(file) === "done") return;
      if (order.get(file) === "open") {
        circles.push([...path.slice(path.indexOf(file)), file].join(" → "));
        return;
      }
      order.set(file, "open");
      path.push(file);
      for (const each of byFile.get(file)?.imports ?? [])
        if (each.file !== undefined && !each.isDynamic) visit(each.file);
      path.pop();
      order.set(file, "done");
    };
    for (const { file } of sources) visit(file);
    expect(circles).toEqual([]);
  });
});

describe("workflows", () => {
  it("load by value, transitively, only what replays: machines, the ledger's room, protocol, domain and lib", () => {
    const workflows = sources.filter(({ file }) => roomOf(file) === "workflows");
    const loaded = reach(workflows, ({ isTypeOnly }) => !isTypeOnly);
    const allowed = ["workflows", "machines", "protocol", "scheduling/ledger", "domain", "lib"];
    expect([...loaded].filter((file) => !allowed.includes(roomOf(file)))).toEqual([]);
  });
});

describe("machines", () => {
  it("load nothing of Temporal, not even by way of the protocol", () => {
    const machines = sources.filter(({ file }) => roomOf(file) === "machines");
    const loaded = reach(machines, ({ isTypeOnly }) => !isTypeOnly);
    const temporal = [...loaded].filter((file) =>
      byFile
        .get(file)
        ?.tree.statements.some((statement) =>
          /^import (?!type).*from "@temporalio/s.test(statement.getText()),
        ),
    );
    expect(temporal).toEqual([]);
  });
});
