/** @file The workflow bundle that the build makes; every worker of one build runs the same workflows. */

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { packageRoot } from "./server/package-root.ts";

export function bundlePath(): string {
  const file = path.join(packageRoot(), "dist", "workflow-bundle.js");
  if (!existsSync(file))
    throw new Error(`${file} is missing: the package was not built. Run \`npm run build\`.`);
  return file;
}

/** For `Worker.create`; with encryption, failures are written so that codecs reach what they say. */
export function workflowBundle(
  isEncrypted: boolean,
): { readonly codePath: string } | { readonly code: string } {
  const codePath = bundlePath();
  if (!isEncrypted) return { codePath };
  return { code: withEncodedFailures(readFileSync(codePath, "utf8")) };
}

const PLAIN = '"orbweaver-failures-plain"';

/** Throws when the bundle does not say exactly once how failures are written: a secret must not leak for a changed build. */
export function withEncodedFailures(code: string): string {
  const parts = code.split(PLAIN);
  if (parts.length !== 2) {
    throw new Error(
      `the workflow bundle has ${String(parts.length - 1)} places that say how failures are written; 1 is right. Run \`npm run build\`.`,
    );
  }
  return parts.join('"orbweaver-failures-encoded"');
}
