/** @file A Chromium of this machine, driven by playwright-core, which a checkout of the repository has; what needs one is skipped by name where there is none. */

import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import type { Browser } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** Undefined where there is none on the path. */
export const CHROMIUM: string | undefined = (process.env["PATH"] ?? "")
  .split(delimiter)
  .flatMap((folder) => NAMES.map((name) => join(folder, name)))
  .find(isExecutable);

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A second or two on a quiet machine, where playwright's own patience is half a minute. */
const START_MS = 300_000;

/** The pages are our own, so a container in which Chromium's sandbox cannot be set up does no harm. */
export async function openBrowser(): Promise<Browser> {
  if (CHROMIUM === undefined) throw new Error("there is no Chromium on the PATH");
  const { chromium } = await import("playwright-core");
  return await chromium.launch({
    executablePath: CHROMIUM,
    timeout: START_MS,
    args: ["--no-sandbox", "--disable-gpu", "--js-flags=--expose-gc"],
  });
}

/** Why no browser can be opened; undefined where one can. */
export async function whyNoBrowser(): Promise<string | undefined> {
  if (CHROMIUM === undefined) return "there is no Chromium on the PATH";
  try {
    await import("playwright-core");
    return undefined;
  } catch {
    return "playwright-core is not installed; a checkout of the repository has it";
  }
}
