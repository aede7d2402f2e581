/** @file `bench console`, part by part. What needs a browser is told as not measured where there is none. */

import { atMost, unmeasured, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";
import type { ConsolePart } from "../console.ts";
import { openBrowser, whyNoBrowser } from "./chromium.ts";
import { measureLargePast } from "./large-past.ts";
import { measureMemory } from "./memory-part.ts";
import { measureLive } from "./live-part.ts";
import { measurePage, pageBars, PAGE_TARGETS } from "./page-part.ts";
import { measureScrape } from "./scrape-part.ts";

export async function runConsole(request: BenchRequest): Promise<BenchAnswer> {
  const chosen = new Set(request.chosen("only"));
  const isChosen = (part: ConsolePart): boolean => chosen.has(part);
  const bars: Bar[] = [];
  if (isChosen("past")) bars.push(...(await measureLargePast(request)));
  if (isChosen("memory")) bars.push(...(await measureMemory(request)));
  if (isChosen("scrape")) bars.push(...(await measureScrape(request)));
  const why = await whyNoBrowser();
  const browser = why === undefined ? await openBrowser() : undefined;
  try {
    if (isChosen("page")) {
      request.say("page: the map and the queue in Chromium");
      const [hosts, waiting, seconds] = ["hosts", "waiting", "seconds"].map(request.size) as [
        number,
        number,
        number,
      ];
      const sizes = { hosts, waiting, seconds, seed: request.seed };
      bars.push(
        ...(browser === undefined
          ? PAGE_TARGETS.map(([id, unit, most]) =>
              unmeasured({ id, unit, target: atMost(most) }, why ?? "no browser"),
            )
          : pageBars(await measurePage(browser, sizes, request.interrupted), sizes)),
      );
    }
    if (isChosen("live"))
      bars.push(...(await measureLive(request, browser, why ?? "the browser has ended")));
    return { bars };
  } finally {
    await browser?.close();
  }
}
