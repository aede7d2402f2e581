/**
 * @file Every gate and every test, cheapest first; ends with the line `N passed, N failed`.
 *
 * Gates (format, types, purity, lint) count as one test each. The tests use a Temporal server of their own, found or built
 * by the same code as the product's; without a server they fail, they are never skipped.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { flagsOf, ownEnvironment, ROOT, say, setup } from "./setup.mjs";

const GATES = [
  { name: "hashes and licences of all packages", bin: "tools/supply-chain.mjs", args: [] },
  {
    name: "format",
    bin: "node_modules/prettier/bin/prettier.cjs",
    args: ["--check", "--log-level=warn", "."],
  },
  { name: "types", bin: "node_modules/typescript/bin/tsc", args: ["-p", "tsconfig.json"] },
  {
    name: "purity of domain, lib and scheduling",
    bin: "node_modules/typescript/bin/tsc",
    args: ["-p", "tsconfig.pure.json"],
  },
  {
    name: "lint and import table",
    bin: "node_modules/eslint/bin/eslint.js",
    args: ["--max-warnings=0", "."],
  },
];

const flags = flagsOf("npm test: every gate and every test.", {
  unit: "gates and what needs no server",
  gates: "gates alone",
  upgrade: "from former releases alone",
});
// Properties draw all their cases, but for the inner loop; see test/support/case-count.ts.
const env = {
  ...ownEnvironment(),
  FORCE_COLOR: "0",
  ...(!flags.has("unit") && { ORBWEAVER_CASES: "all" }),
};
let passed = 0;
let failed = 0;
/** What failed, told once more at the end: the whole output is long, and several suites write into it at the same time. */
const failures = [];
/** What this machine cannot show, e.g. for want of a kind of cgroup: told by name, and counted nowhere. */
const skipped = [];

try {
  await setup();
  let server;
  if (flags.has("upgrade")) {
    await serverBinary();
    await suite("upgrade");
  } else {
    const gates = GATES.map(gate);
    // A build takes minutes, of the core that the last and longest gate leaves free.
    if (!flags.has("unit") && !flags.has("gates"))
      server = Promise.all(gates.slice(0, -1)).then(serverBinary);
    server?.catch(() => undefined);
    await Promise.all(gates);
  }
  if (!flags.has("gates") && !flags.has("upgrade")) {
    await suite("unit");
    await suite("fallback");
    await suite("browser");
    if (!flags.has("unit")) {
      await server;
      await Promise.all(["server", "upgrade"].map(suite));
      await suite("floods");
    }
  }
} catch (error) {
  fail(error instanceof Error ? error.message : String(error));
}
if (skipped.length > 0) process.stdout.write(`\nskipped on this machine:\n${skipped.join("\n")}\n`);
if (failures.length > 0) process.stdout.write(`\nwhat failed:\n${failures.join("\n")}\n\n`);
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;

function fail(what) {
  failed += 1;
  failures.push(`- ${what}`);
}

/** Each works on one core, so they run beside each other, and say what they have to say at their ends. */
async function gate({ name, bin, args }) {
  const child = spawn(process.execPath, [path.join(ROOT, bin), ...args], {
    cwd: ROOT,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [[status], ...said] = await Promise.all([
    once(child, "close"),
    text(child.stdout),
    text(child.stderr),
  ]);
  process.stdout.write(said.join(""));
  if (status === 0) passed += 1;
  else fail(`the gate of ${name}`);
  say(`${name}: ${status === 0 ? "ok" : "failed"}`);
}

/** Found or built before several need it at the same time. */
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
  const strays = path.join(folder, "strays.json");
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
      `--reporter=${path.join(ROOT, "tools/stray-errors.mjs")}`,
    ],
    {
      cwd: ROOT,
      env: { ...env, ORBWEAVER_STRAY_ERRORS: strays },
      stdio: ["ignore", "inherit", "inherit"],
    },
  );
  const [status] = await once(child, "exit");
  try {
    const { numPassedTests, numFailedTests, numTotalTests, testResults } = JSON.parse(
      readFileSync(report, "utf8"),
    );
    passed += numPassedTests;
    failed += numFailedTests;
    for (const result of testResults) failures.push(...failuresOf(project, result));
    const left = skippedIn(testResults);
    for (const { file, fullName } of left) skipped.push(`- ${project} ${file}: ${fullName}`);
    const lost = numTotalTests - numPassedTests - numFailedTests - left.length;
    if (lost > 0) {
      failed += lost;
      failures.push(`- ${lost} ${project} tests did not run; they count as failed`);
    }
    // One that comes again and again would hide the others.
    const errors = new Map();
    for (const error of JSON.parse(readFileSync(strays, "utf8")).map(beginningOf))
      errors.set(error, (errors.get(error) ?? 0) + 1);
    for (const [error, times] of errors)
      fail(`${project}, outside of every test, ${times} times: ${error}`);
    if (status !== 0 && numFailedTests + lost + errors.size === 0)
      fail(`the ${project} run itself: it ended with ${status}`);
  } catch {
    fail(`the ${project} run ended without a report`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Of files that passed: in one that failed to set up its tests, all of them count as skipped, and are lost. */
function skippedIn(testResults) {
  return testResults
    .filter(({ status }) => status === "passed")
    .flatMap(({ name, assertionResults }) =>
      assertionResults
        .filter(({ status }) => status === "skipped")
        .map(({ fullName }) => ({ file: path.relative(ROOT, name), fullName })),
    );
}

/** Each failed test of a file with the beginning of its message; a file that could not be loaded has a message of its own. */
function failuresOf(project, { name, message, assertionResults }) {
  const at = `- ${project} ${path.relative(ROOT, name)}`;
  const tests = assertionResults.filter(({ status }) => status === "failed");
  if (tests.length === 0) return message === "" ? [] : [`${at}: ${beginningOf(message)}`];
  return tests.map(
    ({ fullName, failureMessages }) =>
      `${at}: ${fullName}: ${beginningOf(failureMessages.join("\n"))}`,
  );
}

function beginningOf(message) {
  return message.slice(0, 1_500).replaceAll("\n", "\n    ");
}
