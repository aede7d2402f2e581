/** @file The archive of runs: what Temporal has dropped is shown from it, each run is kept once, and the oldest go first. */

import { msToTs } from "@temporalio/common/lib/time.js";
import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import { randomUUID } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { HistoryEvent } from "../../console/follow/workflow-task.ts";
import { earlierRuns } from "../../console/past/earlier-run.ts";
import { createRunArchive } from "../../console/past/run-archive.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { createConverters } from "../../workers/codec/converters.ts";

const RECORDED = path.join(import.meta.dirname, "../histories/fleet.estimating.json");
const codecs = createConverters().worker.payloadCodecs ?? [];
const history = historyFromJSON(JSON.parse(readFileSync(RECORDED, "utf8"))).events ?? [];

let folder = "";
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), "orbweaver-runs-"))));
afterEach(() => rmSync(folder, { recursive: true }));

/** Runs 3, 2 and 1 of a fleet, the newest first; `dropped` ones are gone. */
function temporal(dropped = new Set<string>()) {
  const asked: string[] = [];
  return {
    dropped,
    asked,
    async *pages(runId: string): AsyncGenerator<readonly HistoryEvent[]> {
      asked.push(runId);
      await Promise.resolve();
      if (dropped.has(runId)) throw Object.assign(new Error("not found"), { code: 5 });
      const number = Number(runId.at(-1));
      const [first = {}, ...rest] = history;
      const started = first.workflowExecutionStartedEventAttributes;
      const continuedExecutionRunId = number > 1 ? `run-${String(number - 1)}` : "";
      const last = { ...rest.at(-1), eventTime: msToTs(1_000_000 * number) };
      yield [
        {
          ...first,
          workflowExecutionStartedEventAttributes: { ...started, continuedExecutionRunId },
        },
      ];
      yield [...rest.slice(0, -1), last];
    },
  };
}

async function told(read: ReturnType<typeof earlierRuns>, runId: string) {
  const ledgers: unknown[] = [];
  const before = await read(runId, {
    began: (ledger) => void ledgers.push(packLedger(ledger)),
    folded: ({ ledger }) => void ledgers.push(packLedger(ledger)),
  });
  return { before, ledgers };
}

describe("the archive of runs", () => {
  it("tells a run that Temporal has dropped as Temporal told it", async () => {
    const server = temporal();
    const archive = createRunArchive({ folder, mostBytes: 1e9, fromTemporal: server.pages });
    const want = await told(earlierRuns(server.pages, codecs), "run-2");
    expect(want.ledgers.length).toBeGreaterThan(10);
    await archive.keep("run-3");
    for (const run of ["run-1", "run-2", "run-3"]) server.dropped.add(run);
    expect(await told(earlierRuns(archive.pages, codecs), "run-2")).toEqual(want);
    expect(want.before).toBe("run-1");
  });

  it("keeps each run once, back to one that is kept or gone, readable by its owner alone", async () => {
    const server = temporal(new Set(["run-1"]));
    const archive = createRunArchive({ folder, mostBytes: 1e9, fromTemporal: server.pages });
    await archive.keep("run-2");
    await archive.keep("run-3");
    await archive.keep(undefined);
    // The first look finds how far back it goes.
    expect(server.asked).toEqual(["run-2", "run-1", "run-2", "run-3", "run-3"]);
    expect(readdirSync(folder).sort()).toEqual(["run-2.history.gz", "run-3.history.gz"]);
    expect(statSync(path.join(folder, "run-2.history.gz")).mode & 0o077).toBe(0);
  });

  it("loses the oldest runs first, and what a console left half written", async () => {
    const server = temporal();
    const roomy = createRunArchive({ folder, mostBytes: 1e9, fromTemporal: server.pages });
    await roomy.keep("run-3");
    const { size } = statSync(path.join(folder, "run-3.history.gz"));
    writeFileSync(path.join(folder, `run-9.history.gz.${randomUUID()}`), "x");
    const tight = createRunArchive({ folder, mostBytes: 2.5 * size, fromTemporal: server.pages });
    await tight.keep(undefined);
    expect(readdirSync(folder).sort()).toEqual(["run-2.history.gz", "run-3.history.gz"]);
  });

  it("leaves alone what is no file of its own, and goes on beside it", async () => {
    const server = temporal();
    const strange = ["notes.txt", "run-9.history.gz.half", "my run.history.gz", ".history.gz"];
    for (const name of strange) writeFileSync(path.join(folder, name), "of the user");
    mkdirSync(path.join(folder, "results"));
    mkdirSync(path.join(folder, "old.history.gz"));
    const archive = createRunArchive({ folder, mostBytes: 1, fromTemporal: server.pages });
    await archive.keep("run-1");
    expect(readdirSync(folder).sort()).toEqual([...strange, "old.history.gz", "results"].sort());
  });

  it("keeps with the next call what failed once, and all before it", async () => {
    const server = temporal();
    let isAway = true;
    const archive = createRunArchive({
      ...{ folder, mostBytes: 1e9 },
      async *fromTemporal(runId) {
        for await (const page of server.pages(runId)) {
          yield page;
          if (runId === "run-2" && isAway) throw Object.assign(new Error("away"), { code: 14 });
        }
      },
    });
    await expect(archive.keep("run-3")).rejects.toThrow("away");
    isAway = false;
    await archive.keep("run-4");
    expect(readdirSync(folder).sort()).toEqual(
      [1, 2, 3, 4].map((run) => `run-${String(run)}.history.gz`),
    );
  });

  it("takes no name from outside its folder, reads what is damaged from Temporal, and says which file it cannot read", async () => {
    const server = temporal();
    const archive = createRunArchive({ folder, mostBytes: 1e9, fromTemporal: server.pages });
    await archive.keep("../run-1");
    expect(readdirSync(folder)).toEqual([]);
    writeFileSync(path.join(folder, "run-2.history.gz"), "junk");
    const want = await told(earlierRuns(server.pages, codecs), "run-2");
    expect(await told(earlierRuns(archive.pages, codecs), "run-2")).toEqual(want);
    server.dropped.add("run-2");
    await expect(told(earlierRuns(archive.pages, codecs), "run-2")).rejects.toThrow(
      "run-2.history.gz cannot be read",
    );
  });
});
