/** @file A page of the console in a browser, with what its own console said, and measures of it. Scripts for the browser are text: its types would change Node's. */

import { setTimeout as sleep } from "node:timers/promises";
import type { Browser, CDPSession, Page } from "playwright-core";

export interface Opened {
  readonly page: Page;
  /** Errors and warnings of the page, and what it threw. */
  readonly complaints: string[];
  readonly close: () => Promise<void>;
}

export interface Look {
  readonly width?: number;
  readonly height?: number;
  readonly colorScheme?: "light" | "dark";
  /** A script that runs before the page's own. */
  readonly before?: string;
}

/** What is waited for comes within a second on a quiet machine. */
const PATIENCE_MS = 300_000;

export async function openPage(browser: Browser, url: string, look: Look = {}): Promise<Opened> {
  const { width = 1_400, height = 900, colorScheme = "light", before } = look;
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  page.setDefaultTimeout(PATIENCE_MS);
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  if (before !== undefined) await page.addInitScript(before);
  await page.goto(url);
  await page.locator("main section, main p").first().waitFor();
  return { page, complaints, close: () => page.close() };
}

const LOOK_MS = 5;

/** Until the map has been painted. Asked from outside: the policy of the page allows nobody to wait inside it for the value of a text. */
export async function untilDrawn(page: Page): Promise<void> {
  while ((await page.evaluate("window.orbweaverDrawn?.count > 0")) !== true) await sleep(LOOK_MS);
}

export interface Meter {
  /** Processor time of the page's main thread since the last call, in milliseconds. */
  readonly busyMs: () => Promise<number>;
  /** Bytes of the heap after a collection. */
  readonly heapBytes: () => Promise<number>;
}

export async function meterOf(page: Page): Promise<Meter> {
  const session: CDPSession = await page.context().newCDPSession(page);
  // Other work on the machine must not count.
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  let former = 0;
  const total = async (): Promise<number> => {
    const { metrics } = await session.send("Performance.getMetrics");
    return 1_000 * (metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0);
  };
  former = await total();
  return {
    async busyMs() {
      const now = await total();
      const busy = now - former;
      former = now;
      return busy;
    },
    async heapBytes() {
      await session.send("HeapProfiler.collectGarbage");
      const { usedSize } = await session.send("Runtime.getHeapUsage");
      return usedSize;
    },
  };
}
