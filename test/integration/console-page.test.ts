/**
 * @file The console's page in a real browser, with a live fleet: what a user sees and does there, how soon, and what it costs Temporal. How soon is printed;
 * half a second, the bar of the project, is for a quiet machine, and a busy one may take ten times as long.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Browser } from "playwright-core";
import { startConsole } from "../../console/console.ts";
import { readPage } from "../../console/http/page-files.ts";
import type { HttpConsole } from "../../console/http/server.ts";
import { quantile } from "../../lib/quantile.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { CHROMIUM, openBrowser } from "../../bench/console/chromium.ts";
import { countedClient, openBareBrowser } from "../../bench/console/consoles.ts";
import { openPage, type Opened } from "../../bench/console/opened-page.ts";
import { axeFindings } from "../browser/axe.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

/** Of the fleet; a gang of all its GPUs is there, too. */
const HOST = "alpha/a1";
const CHANGES = 60;
const EVERY_MS = 100;
const MOST_DELAY_MS = 5_000;

describe.skipIf(CHROMIUM === undefined)("the console's page of a live fleet", () => {
  let world: World;
  let console_: HttpConsole;
  let browser: Browser;
  let url: string;
  const seen = { calls: 0 };
  beforeAll(async () => {
    world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
    console_ = await startConsole({
      client: countedClient(world.temporal, () => (seen.calls += 1)),
      fleet: world.fleet,
      codecs: createConverters().worker.payloadCodecs ?? [],
      ...{ host: "127.0.0.1", port: 0, rule: {}, files: readPage(packageRoot()) },
      actor: () => world.orbweaver,
      say: (line) => process.stderr.write(`${line}\n`),
    });
    url = `http://127.0.0.1:${String(console_.port)}/`;
    browser = await openBrowser();
  });
  afterAll(async () => {
    await browser.close();
    await console_.close();
    await world.stop();
  });

  const open = (query: string): Promise<Opened> => openPage(browser, `${url}${query}`);

  it("shows a job that runs with its output, one that waits with its reason, and carries out orders", async () => {
    const command = ["sh", "-c", "echo hello from rank $RANK; sleep 600"];
    const submit = async (name: string, gpus: number): Promise<string> =>
      (await world.orbweaver.submit({ name, gang: { gpus }, run: { command, launch: "per-gpu" } }))
        .jobId;
    const runs = await submit("runs", 12);
    await world.until("it holds", ({ leases }) => [...leases.values()].some(isHeld));
    const waits = await submit("waits", 8);
    const { page, complaints, close } = await open("?view=queue");
    await page.getByText("1 waiting job").waitFor();
    await page.locator(".row", { hasText: waits }).click();
    await page.getByText("What would start it now").waitFor();
    await page.getByRole("button", { name: "Hold", exact: true }).click();
    await page.getByRole("button", { name: "Yes, hold" }).click();
    await page.getByText(`${waits}: held`).waitFor();
    await page.goto(`${url}?view=job&job=${runs}`);
    await page.getByRole("button", { name: "Show live" }).click();
    await page.getByRole("log").getByText("hello from rank 0").waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("spinbutton", { name: "Rank" }).fill("5");
    await page.keyboard.press("Tab");
    await page.getByRole("log").getByText("hello from rank 5").waitFor();
    await page.goto(`${url}?view=whatif`);
    await page.getByLabel("GPUs", { exact: true }).fill("64");
    await page.getByRole("button", { name: "Try it" }).click();
    await page.getByText("It would never start").waitFor();
    await page.goto(`${url}?view=job&job=${runs}`);
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("button", { name: "Yes, cancel" }).click();
    await page.getByText(`${runs}: cancelling`).waitFor();
    await world.until("all is free", ({ leases }) => leases.size === 0);
    await page.goto(`${url}?view=host&host=${encodeURIComponent(HOST)}`);
    await page.locator("svg.spans title", { hasText: runs }).first().waitFor({ state: "attached" });
    expect(complaints).toEqual([]);
    await close();
  });

  it("shows events of the fleet's history soon, at ten changes a second", async () => {
    const { page, close } = await open("?mode=health");
    await page.waitForFunction("window.orbweaverDrawn?.count > 0");
    await page.evaluate(`
      window.delays_ = [];
      (function next(known) {
        const { atMs } = window.orbweaverDrawn;
        if (atMs > known) window.delays_.push(performance.timeOrigin + performance.now() - atMs);
        requestAnimationFrame(() => next(Math.max(known, atMs)));
      })(window.orbweaverDrawn.atMs);`);
    await change(world, CHANGES);
    await sleep(1_000);
    const delays = (await page.evaluate("window.delays_")) as readonly number[];
    const told = `event to frame, ${String(delays.length)} frames: median ${quantile(delays, 0.5).toFixed(0)} ms, p99 ${quantile(delays, 0.99).toFixed(0)} ms`;
    process.stderr.write(`${told}\n`);
    expect(delays.length).toBeGreaterThan(CHANGES / 4);
    expect(quantile(delays, 0.5), told).toBeLessThanOrEqual(MOST_DELAY_MS);
    await close();
  });

  it("calls Temporal as often for fifty browsers as for one", async () => {
    const callsWith = async (browsers: number): Promise<number> => {
      const looks = await Promise.all(Array.from({ length: browsers }, () => openBareBrowser(url)));
      await sleep(500);
      const before = seen.calls;
      await change(world, CHANGES / 2);
      const made = seen.calls - before;
      for (const one of looks) one.close();
      return made;
    };
    // How many events one call brings varies with the load of the machine, so one browser looks before and after.
    const [before, fifty, after] = [await callsWith(1), await callsWith(50), await callsWith(1)];
    process.stderr.write(
      `calls to Temporal, ${String(CHANGES / 2)} changes: one browser ${String(before)}, fifty ${String(fifty)}, one again ${String(after)}\n`,
    );
    expect(Math.min(before, after)).toBeGreaterThan(0);
    expect(fifty).toBeLessThanOrEqual(2 * Math.max(before, after));
  });
});

const isHeld = ({ state }: { readonly state: string }): boolean => state === "held";

/** Drains and undrains a host, so many times: ten times a second, or as fast as the fleet answers. */
async function change({ orbweaver }: World, times: number): Promise<void> {
  for (let at = 0; at < times; at += 1) {
    const dueMs = performance.now() + EVERY_MS;
    await (at % 2 === 0 ? orbweaver.drain([HOST], "test") : orbweaver.undrain([HOST]));
    await sleep(Math.max(0, dueMs - performance.now()));
  }
}
