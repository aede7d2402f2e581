/** @file A page of the console in a browser, with what its own console said, and measures of it. Scripts for the browser are text: its types would change Node's. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
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
}

/** What a test waits for comes within a second on a quiet machine. */
const PATIENCE_MS = 90_000;

export async function openPage(browser: Browser, url: string, look: Look = {}): Promise<Opened> {
  const { width = 1_400, height = 900, colorScheme = "light" } = look;
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  page.setDefaultTimeout(PATIENCE_MS);
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  await page.goto(url);
  await page.locator("main section, main p").first().waitFor();
  return { page, complaints, close: () => page.close() };
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** What axe finds wrong, one line each. */
export async function axeFindings(page: Page): Promise<readonly string[]> {
  await page.evaluate(AXE);
  const violations = (await page.evaluate(
    "axe.run(document).then(({ violations }) => violations)",
  )) as readonly Violation[];
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`);
}

/** How far the page is wider than the window. */
export const overflow = async (page: Page): Promise<number> =>
  Number(await page.evaluate("document.documentElement.scrollWidth - window.innerWidth"));

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
