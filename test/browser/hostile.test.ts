/**
 * @file The console's page in a real browser against attackers: a submitter whose names and output are a program, and a page of another origin that frames it, sends it
 * orders and reads it.
 */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CHROMIUM, openBrowser } from "../../bench/console/chromium.ts";
import { madeUpFleet, type MadeUpFleet } from "../../bench/console/made-up-fleet.ts";
import { openPage } from "../../bench/console/opened-page.ts";
import { servePage, type PageServer } from "../../bench/console/page-server.ts";

const MARKUP = '<img src=x onerror="window.robbed=1"><script>window.robbed=1</script>';
const PROGRAMS = [MARKUP, "javascript:window.robbed=1", "{{constructor.constructor('x')()}}"];

const fleet = madeUpFleet({ seed: 1, hosts: 16, waiting: 60, nowMs: Date.now() });
/** The same with a program for each name of a job, for a tenant and in reasons. */
const hostile: MadeUpFleet = {
  ...fleet,
  snapshot: () => forged(fleet.snapshot()),
  jobPage: (job) => forged(fleet.jobPage(job)),
  shares: () => forged(fleet.shares()),
  hostPast: (host) => forged(fleet.hostPast(host)),
};
function forged<Told>(told: Told): Told {
  const quoted = (text: string): string => JSON.stringify(text).slice(1, -1);
  const text = JSON.stringify(told)
    .replaceAll(/train-(\d+)/g, (_, at: string) => quoted(PROGRAMS[Number(at) % 3] ?? ""))
    .replaceAll("vision", quoted(MARKUP))
    .replaceAll("compact", quoted(MARKUP));
  return JSON.parse(text) as Told; // the same but for its texts
}

describe.skipIf(CHROMIUM === undefined)("the console in Chromium", () => {
  let browser: Browser;
  let server: PageServer;
  beforeAll(async () => {
    browser = await openBrowser();
    server = await servePage(hostile);
  });
  afterAll(async () => {
    await browser.close();
    await server.close();
  });

  const [gang = ""] = fleet.runningJobs();
  it.each([
    ["map", "?mode=tenant"],
    ["queue", "?view=queue"],
    ["tenants", "?view=tenants"],
    ["host", "?view=host&host=eu-h100/h000"],
    ["decisions", "?view=decisions"],
    ["running job", `?view=job&job=${gang}`],
    ["job of an address", `?view=job&job=${encodeURIComponent(MARKUP)}`],
    ["search of an address", `?view=queue&q=${encodeURIComponent(MARKUP)}`],
  ])("shows names that are programs as names: %s", async (_what, query) => {
    const { page, complaints, close } = await openPage(browser, server.url + query);
    await page.getByText("following").waitFor();
    await page.getByText("window.robbed=1").first().waitFor({ state: "attached" });
    expect(await page.evaluate("window.robbed")).toBeUndefined();
    expect(await page.locator("img, iframe, script:not([src])").count()).toBe(0);
    expect(await page.locator("a[href^='javascript:']").count()).toBe(0);
    // The policy of the page would complain of what it had to stop.
    expect(complaints).toEqual([]);
    await close();
  });

  it("shows output that is a program as output", async () => {
    const { page, complaints, close } = await openPage(
      browser,
      `${server.url}?view=job&job=${gang}`,
    );
    const events = [{ attempt: 1 }, { text: `${MARKUP}\n` }, { isEnd: true }];
    await page.route("**/api/logs?*", (route) =>
      route.fulfill({
        contentType: "text/event-stream",
        body: events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""),
      }),
    );
    await page.getByRole("button", { name: "Show live" }).click();
    await page.getByRole("log").getByText(MARKUP).waitFor();
    expect(await page.evaluate("window.robbed")).toBeUndefined();
    expect(complaints).toEqual([]);
    await close();
  });

  it("is framed by no page of another origin, takes no order of one, and tells it nothing", async () => {
    const evil = createServer((_request, response) => {
      response.setHeader("Content-Type", "text/html");
      response.end(`<!doctype html><iframe src="${server.url}"></iframe><p>evil</p>`);
    }).listen(0, "127.0.0.1");
    await once(evil, "listening");
    const { port } = evil.address() as AddressInfo; // of a port, not of a socket
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${String(port)}/`);
    await expect
      .poll(() => page.frames().map((frame) => frame.url()))
      .toContainEqual(expect.stringContaining("chrome-error://"));
    const order = JSON.stringify({ verb: "hold", job: "wait-00001" });
    const said = await page.evaluate(`(async () => {
      const at = (path, how) => fetch("${server.url}" + path, how).then((r) => r.text(), (e) => e.name);
      const order = ${JSON.stringify(order)};
      return [
        await at("api/orders", { method: "POST", mode: "no-cors", body: order }),
        await at("api/orders", { method: "POST", headers: { "Content-Type": "application/json" }, body: order }),
        await at("api/past?at=1", {}),
      ];
    })()`);
    expect(said).toEqual(["TypeError", "TypeError", "TypeError"]);
    await page.evaluate(`(() => {
      const form = document.createElement("form");
      Object.assign(form, { method: "POST", action: "${server.url}api/orders", enctype: "text/plain" });
      const field = document.createElement("input");
      Object.assign(field, { name: ${JSON.stringify(order)}, value: "" });
      form.append(field);
      document.body.append(form);
      form.submit();
    })()`);
    await page.getByText("no page of elsewhere may ask").waitFor();
    expect(server.ordered).toEqual([]);
    await page.close();
    evil.close();
  });
});
