/** @file Every screen of the console in a real browser, with a made-up fleet of 6,016 GPUs and 10,000 waiting jobs: readable, usable, and without a complaint. */

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Browser } from "playwright-core";
import { CHROMIUM, openBrowser } from "../../bench/console/chromium.ts";
import { madeUpFleet } from "../../bench/console/made-up-fleet.ts";
import { openPage, untilDrawn, type Look, type Opened } from "../../bench/console/opened-page.ts";
import { axeFindings, overflow } from "./axe.ts";
import { servePage, type PageServer } from "../../bench/console/page-server.ts";

const fleet = madeUpFleet({ seed: 1, hosts: 752, waiting: 10_000, nowMs: Date.now() });
const [gang = ""] = fleet.runningJobs();
const SCREENS: readonly (readonly [name: string, query: string, words: string])[] = [
  ["map", "", "on 752 hosts"],
  ["map with an outlined gang", `?job=${gang}`, `Open ${gang}`],
  ["map of tenants, larger", "?mode=tenant&zoom=3", "vision"],
  ["map of use", "?mode=use", "leased and idle"],
  ["map of expected bandwidth", "?mode=bandwidth", "GB/s"],
  ["queue", "?view=queue", "10,000 waiting jobs"],
  ["tenants", "?view=tenants", "Over time"],
  ["hosts", "?view=hosts", "eu-h100/h000"],
  ["host", "?view=host&host=eu-h100/h004", "Leases over time"],
  ["decisions", "?view=decisions", "412 candidates"],
  ["what if", "?view=whatif", "Try it"],
  ["running job", `?view=job&job=${gang}`, "all ranks have started"],
  ["waiting job", "?view=job&job=wait-00001", "What would start it now"],
  ["past", `?view=queue&at=${String(Date.now() - 1_800_000)}`, "back to live"],
];
const LOOKS: readonly Look[] = [
  { width: 1_400, colorScheme: "light" },
  { width: 390, height: 844, colorScheme: "dark" },
];

describe.skipIf(CHROMIUM === undefined)("the console in Chromium", () => {
  let browser: Browser;
  let server: PageServer;
  let opened: Opened | undefined;
  beforeAll(async () => {
    browser = await openBrowser();
    server = await servePage(fleet);
  });
  afterEach(async () => {
    await opened?.close();
    opened = undefined;
  });
  afterAll(async () => {
    await browser.close();
    await server.close();
  });

  const open = async (query: string, look: Look = {}): Promise<Opened> =>
    (opened = await openPage(browser, server.url + query, look));

  describe.each(LOOKS)("at $width pixels, $colorScheme", (look) => {
    it.each(SCREENS)("shows %s", async (_name, query, words) => {
      const { page, complaints } = await open(query, look);
      await page.getByText(words, { exact: false }).first().waitFor();
      expect(await axeFindings(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
      expect(complaints).toEqual([]);
    });
  });

  it("outlines the gang that is clicked on the map, opens its job, and goes back", async () => {
    const { page, complaints } = await open("");
    await untilDrawn(page);
    const canvas = page.locator("canvas");
    // The first GPU of the first host: below the names of cluster and rack.
    await canvas.hover({ position: { x: 3, y: 45 } });
    await page.locator(".tip").getByText("eu-h100/h000 GPU 0").waitFor();
    await canvas.click({ position: { x: 3, y: 45 } });
    const button = page.getByRole("button", { name: /^Open / });
    const job = ((await button.textContent()) ?? "").replace("Open ", "");
    await button.click();
    await page.getByRole("heading", { name: job, exact: true }).waitFor();
    await page.goBack();
    await button.waitFor();
    await page.goBack();
    await button.waitFor({ state: "detached" });
    expect(complaints).toEqual([]);
  });

  it("filters and sorts the queue, keeps both in the address, and opens a row by keyboard", async () => {
    const { page } = await open("?view=queue");
    await page.getByLabel("Filter by tenant").selectOption("maps");
    await page.getByRole("button", { name: "GPUs" }).click();
    await page.getByRole("button", { name: "GPUs" }).click();
    const first = page.getByRole("row").nth(1);
    await expect.poll(() => first.locator(".c-gpus").textContent()).toMatch(/128/);
    await expect.poll(() => first.locator(".c-tenant").textContent()).toBe("maps");
    await page.getByLabel("Search").fill("wait-0000");
    await page.getByText(/^\d+ of 10,000 waiting jobs$/).waitFor();
    const asked = (): object => Object.fromEntries(new URL(page.url()).searchParams);
    const want = { tenant: "maps", q: "wait-0000", sort: "-gpus" };
    await expect.poll(asked).toMatchObject(want);
    await page.locator(".rows").focus();
    await page.keyboard.press("ArrowDown");
    const focused = await page.locator(".row.focused .c-job").textContent();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: focused ?? "", exact: true }).waitFor();
    await page.goBack();
    await expect.poll(() => page.getByLabel("Search").inputValue()).toBe("wait-0000");
  });

  it("reaches every view with the keyboard alone", async () => {
    const { page } = await open("");
    for (const name of ["Queue", "Tenants", "Hosts", "Decisions", "What if"]) {
      await page.getByRole("navigation").getByRole("button", { name }).focus();
      await page.keyboard.press("Enter");
      await page
        .getByRole("navigation")
        .locator("[aria-current=page]", { hasText: name })
        .waitFor();
    }
  });

  it("gives an order only after it was confirmed", async () => {
    const { page } = await open("?view=job&job=wait-00001");
    await page.getByRole("button", { name: "Hold", exact: true }).click();
    await page.getByRole("button", { name: "No", exact: true }).click();
    expect(server.ordered).toEqual([]);
    await page.getByRole("button", { name: "Hold", exact: true }).click();
    await page.getByRole("button", { name: "Yes, hold" }).click();
    await page.getByText("wait-00001: held").waitFor();
    await page.goto(`${server.url}?view=host&host=eu-h100/h004`);
    await page.getByRole("button", { name: "Drain", exact: true }).click();
    await page.getByRole("button", { name: "Yes, drain" }).click();
    await page.getByText("drain: eu-h100/h004").waitFor();
    expect(server.ordered).toEqual(["hold wait-00001", "drain eu-h100/h004: from the console"]);
  });

  it("shows the output of the rank that was chosen", async () => {
    const { page } = await open(`?view=job&job=${gang}`);
    await page.getByRole("button", { name: "Show live" }).click();
    await page.getByRole("log").getByText("rank 0 step 39").waitFor();
    const rank = page.getByRole("spinbutton", { name: "Rank" });
    await rank.fill("3");
    await rank.press("Tab");
    await page.getByRole("log").getByText("rank 3 step 39").waitFor();
    await page.getByText("the job has ended").waitFor();
    expect(await axeFindings(page)).toEqual([]);
  });

  it("writes the form of what-if into a job file, and shows the answer", async () => {
    const { page } = await open("?view=whatif");
    await page.getByLabel("GPUs", { exact: true }).fill("16");
    await page.getByLabel("GPU type").selectOption("H200");
    const jobFile = (): Promise<string> => page.getByLabel("Job file").inputValue();
    await expect.poll(jobFile).toContain("gang: { gpus: 16 }");
    await expect.poll(jobFile).toContain('gpuTypes: ["H200"]');
    await page.getByRole("button", { name: "Try it" }).click();
    await page.getByText("10,001 of 10,001 in the queue").waitFor();
    expect(await axeFindings(page)).toEqual([]);
  });

  it("goes on by itself after its server died and came back", async () => {
    const other = await servePage(fleet);
    const { page } = await openPage(browser, other.url);
    await page.getByText("following").waitFor();
    await other.close();
    await page.getByText("not connected; trying again").waitFor();
    const again = await servePage(fleet, other.port);
    await page.getByText("following").waitFor();
    again.tell({ kind: "delta", changes: { requests: { gone: ["wait-00001"] } } });
    await page.getByRole("button", { name: /Queue 9,999/ }).waitFor();
    await page.close();
    await again.close();
  });
});
