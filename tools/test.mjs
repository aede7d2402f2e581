/**
 * @file Every gate and every test, cheapest first; ends with the line `N passed, N failed`.
 *
 * Gates (format, types, purity, lint) count as one test each. The tests use a Temporal server of their own, found or built
 * by the same code as the product's; without a server they fail, they are never skipped. The integration tests run in two halves at
 * the same time.
 */

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { flagsOf, ownEnvironment, ROOT, say, setup } from "./setup.mjs";

const GATES = [
  { name: "format", bin: "prettier/bin/prettier.cjs", args: ["--check", "--log-level=warn", "."] },
  { name: "types", bin: "typescript/bin/tsc", args: ["-p", "tsconfig.json"] },
  {
    name: "purity of domain, lib and scheduling",
    bin: "typescript/bin/tsc",
    args: ["-p", "tsconfig.pure.json"],
  },
  { name: "lint and import table", bin: "eslint/bin/eslint.js", args: ["--max-warnings=0", "."] },
];

const env = { ...ownEnvironment(), FORCE_COLOR: "0" };
const flags = flagsOf(["unit", "gates"]);
let passed = 0;
let failed = 0;

try {
  await setup();
  for (const { name, bin, args } of GATES) gate(name, bin, args);
  if (!flags.has("gates")) {
    await suite("unit");
    // Halves of the integration tests, each on a server of its own: they mostly wait.
    if (!flags.has("unit")) {
      await serverBinary();
      await Promise.all([suite("patient"), suite("busy")]);
    }
  }
} catch (error) {
  failed += 1;
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
}
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;

function gate(name, bin, args) {
  const done = spawnSync(process.execPath, [path.join(ROOT, "node_modules", bin), ...args], {
    cwd: ROOT,
    env,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (done.status === 0) passed += 1;
  else failed += 1;
  say(`${name}: ${done.status === 0 ? "ok" : "failed"}`);
}

/** Found or built before two need it at the same time. */
async function serverBinary() {
  const { provideServerBinary, progressPrinter } = await import(
    path.join(ROOT, "dist/workers/server/index.js")
  );
  await provideServerBinary({ onProgress: progressPrinter(process.stderr) });
}

/** Runs one vitest project and adds its counts; a crash without a report is a failure of its own. */
async function suite(project) {
  say(`${project} tests`);
  const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-test-"));
  const report = path.join(folder, "report.json");
  const child = spawn(
    process.execPath,
    [
      path.join(ROOT, "node_modules/vitest/vitest.mjs"),
      "run",
      "--project",
      project,
      "--reporter=default",
      "--reporter=json",
      `--outputFile.json=${report}`,
    ],
    { cwd: ROOT, env, stdio: ["ignore", "inherit", "inherit"] },
  );
  const [status] = await once(child, "exit");
  try {
    const { numPassedTests, numFailedTests, numTotalTests } = JSON.parse(
      readFileSync(report, "utf8"),
    );
    passed += numPassedTests;
    failed += numFailedTests;
    const lost = numTotalTests - numPassedTests - numFailedTests;
    if (lost > 0) {
      failed += lost;
      say(`${lost} ${project} tests did not run; they count as failed`);
    }
    if (status !== 0 && numFailedTests === 0 && lost === 0) {
      failed += 1;
      say(`the ${project} run itself failed`);
    }
  } catch {
    failed += 1;
    say(`the ${project} run ended without a report`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
