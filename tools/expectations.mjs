/**
 * @file `npm run expectations`: runs the tests that `test/expectations.md` names and no others, and says of each clause and row whether it holds.
 *
 * A clause holds when each test that it names has passed, and one of them runs on a live fleet or in a browser. The projects run at the same time, each on a
 * server of its own. Ends with 1 where a row does not hold that the page calls held, or a test failed.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { hasFleet, readExpectations, titlePattern } from "./expectations-table.mjs";
import { ownEnvironment, ROOT, say, setup } from "./setup.mjs";

/** Those of one line run one after the other. */
const PROJECTS = [["patient"], ["steady"], ["busy"], ["attacks"], ["unit", "browser"]];

const rows = readExpectations(readFileSync(path.join(ROOT, "test/expectations.md"), "utf8"));
const named = rows.flatMap(({ clauses }) => clauses.flatMap(({ tests }) => tests));
/** Files of which a clause takes all tests, and the others with the words of the titles that are taken. */
const whole = new Set(named.filter(({ title }) => title === undefined).map(({ file }) => file));
const parts = named.filter(({ file }) => !whole.has(file));

await setup();
const { provideServerBinary, progressPrinter } = await import(
  path.join(ROOT, "dist/workers/server/index.js")
);
await provideServerBinary({ onProgress: progressPrinter(process.stderr) });
const beganMs = Date.now();
const results = (
  await Promise.all(
    PROJECTS.map(async (projects) => {
      const all = await vitest(projects, [...whole], []);
      return [
        ...all,
        ...(await vitest(
          projects,
          parts.map(({ file }) => file),
          parts,
        )),
      ];
    }),
  )
).flat();
const tookSeconds = (Date.now() - beganMs) / 1_000;

let broken = results.filter(({ status }) => status === "failed").length;
for (const { number, title, verdict, clauses } of rows) {
  const judged = clauses.map((clause) => ({ ...clause, ...judge(clause) }));
  const held = judged.filter(({ state }) => state === "holds").length;
  const isHeld = held === judged.length;
  if (!isHeld && verdict.startsWith("holds")) broken += 1;
  const word = isHeld ? "holds" : `${held} of ${judged.length} clauses hold`;
  process.stdout.write(`\n${number} · ${title}: ${word} (the page: ${verdict})\n`);
  for (const { name, state, seconds } of judged)
    process.stdout.write(`  ${state.padEnd(15)} ${seconds.toFixed(1).padStart(6)} s  ${name}\n`);
}
const count = new Set(results.map(({ file, fullName }) => `${file} ${fullName}`)).size;
process.stdout.write(
  `\n${count} tests in ${Math.round(tookSeconds)} s, the projects at the same time\n`,
);
process.exitCode = broken === 0 ? 0 : 1;

/** Whether a clause holds, and the seconds of its tests, which other clauses may share. */
function judge({ tests }) {
  const found = tests.map((test) => results.filter((result) => isOf(result, test)));
  const seconds = [...new Set(found.flat())].reduce((sum, { ms }) => sum + ms, 0) / 1_000;
  if (tests.length === 0) return { state: "missing", seconds };
  const all = found.flat();
  if (all.some(({ status }) => status === "failed")) return { state: "fails", seconds };
  if (found.some((some) => !some.some(({ status }) => status === "passed")))
    return { state: all.length > 0 ? "skipped" : "did not run", seconds };
  return { state: tests.some(hasFleet) ? "holds" : "without a fleet", seconds };
}

function isOf({ file, fullName }, test) {
  const isThere = test.file.endsWith("/") ? file.startsWith(test.file) : file === test.file;
  return (
    isThere && (test.title === undefined || new RegExp(titlePattern(test.title)).test(fullName))
  );
}

/** The tests of these projects in these files that ran; of all titles where none is named. */
async function vitest(projects, files, titles) {
  // Without a file Vitest would run all.
  if (files.length === 0) return [];
  const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-expectations-"));
  const report = path.join(folder, "report.json");
  const patterns = titles.map(({ title }) => titlePattern(title));
  const child = spawn(
    process.execPath,
    [
      ...[path.join(ROOT, "node_modules/vitest/vitest.mjs"), "run", "--passWithNoTests"],
      ...projects.flatMap((project) => ["--project", project]),
      ...["--reporter=dot", "--reporter=json", `--outputFile.json=${report}`],
      ...(patterns.length === 0 ? [] : ["-t", [...new Set(patterns)].join("|")]),
      ...new Set(files),
    ],
    { cwd: ROOT, env: ownEnvironment(), stdio: ["ignore", process.stderr, "inherit"] },
  );
  await once(child, "exit");
  try {
    const { testResults } = JSON.parse(readFileSync(report, "utf8"));
    return testResults.flatMap(({ name, message, assertionResults }) => {
      const file = path.relative(ROOT, name);
      if (assertionResults.length === 0 && message !== "")
        return [{ file, fullName: "", status: "failed", ms: 0 }];
      return assertionResults
        .filter(({ status }) => status === "passed" || status === "failed")
        .map(({ fullName, status, duration = 0 }) => ({ file, fullName, status, ms: duration }));
    });
  } catch {
    say(`${projects.join(", ")}: no report, so no test of it counts`);
    return [];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
