/**
 * @file `npm run expectations`: runs the tests on a live fleet or in a browser that `test/expectations.md` names, and no others, and says of each clause and row whether it holds.
 *
 * A clause holds when each such test that it names has passed; those without a fleet are left to `npm test`, because they alone show no clause. Lines of tests run
 * at the same time, each on a server of its own, and each takes the next file once it is done with one. Ends with 1 where a row does not
 * hold that the page calls held, or a test failed.
 */

import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import path from "node:path";
import { hasFleet, readExpectations, titlePattern } from "./expectations-table.mjs";
import { ownEnvironment, ROOT, say, setup } from "./setup.mjs";

/** As many as keep two cores busy: tests of live fleets wait for half of their time. */
const LINES = 4;

const rows = readExpectations(readFileSync(path.join(ROOT, "test/expectations.md"), "utf8"));
const named = rows.flatMap(({ clauses }) => clauses.flatMap(({ tests }) => tests)).filter(hasFleet);
/** Those with the most titles take the longest, so they come first. */
const queue = [...new Set(named.map(({ file }) => file))]
  .map((file) => ({ file, titles: titlesOf(file) }))
  .sort((a, b) => b.titles.length - a.titles.length);

await setup();
const { provideServerBinary, progressPrinter } = await import(
  path.join(ROOT, "dist/workers/server/index.js")
);
await provideServerBinary({ onProgress: progressPrinter(process.stderr) });
const beganMs = Date.now();
const results = (await Promise.all(Array.from({ length: LINES }, runLine))).flat();
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
  `\n${count} tests in ${Math.round(tookSeconds)} s, in ${LINES} lines at the same time\n`,
);
process.exitCode = broken === 0 ? 0 : 1;

function titlesOf(wanted) {
  return [...new Set(named.filter(({ file }) => file === wanted).map(({ title }) => title))];
}

/** Whether a clause holds, and the seconds of its tests, which other clauses may share. */
function judge({ tests }) {
  const live = tests.filter(hasFleet);
  const found = live.map((test) => results.filter((result) => isOf(result, test)));
  const all = found.flat();
  const seconds = [...new Set(all)].reduce((sum, { ms }) => sum + ms, 0) / 1_000;
  if (live.length === 0)
    return { state: tests.length === 0 ? "missing" : "without a fleet", seconds };
  if (all.some(({ status }) => status === "failed")) return { state: "fails", seconds };
  const isShown = found.every((some) => some.some(({ status }) => status === "passed"));
  return { state: isShown ? "holds" : "did not run", seconds };
}

function isOf({ file, fullName }, test) {
  return file === test.file && new RegExp(titlePattern(test.title)).test(fullName);
}

/** The tests of one line that ran. */
async function runLine() {
  const child = fork(path.join(ROOT, "tools/expectations-line.mjs"), {
    cwd: ROOT,
    env: ownEnvironment(),
    stdio: ["ignore", process.stderr, "inherit", "ipc"],
  });
  const ran = [];
  let file;
  child.on("message", ({ tests }) => {
    ran.push(...tests);
    const next = queue.shift() ?? {};
    ({ file } = next);
    child.send(next);
  });
  await once(child, "exit");
  if (file === undefined) return ran;
  say(`${file}: its line of tests ended`);
  return [...ran, { file, fullName: "", status: "failed", ms: 0 }];
}
