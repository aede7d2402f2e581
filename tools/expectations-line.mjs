/**
 * @file One line of `npm run expectations`: a process that runs one file of tests after the other on one server, as its parent names them.
 *
 * From the parent come `{ file, titles }`, and an empty message as the end; back go `{ tests: [{ file, fullName, status, ms }] }`, the first time empty, each
 * time asking for the next. Where the parent is gone before that end, the line gives up what it runs, and its server ends with it.
 */

import { once } from "node:events";
import path from "node:path";
import { createVitest } from "vitest/node";
import { titlePattern } from "./expectations-table.mjs";
import { ROOT } from "./setup.mjs";

const config = path.join(ROOT, "tools/expectations.config.ts");
let vitest;
const giveUp = async () => {
  await vitest?.exit(true);
  process.exit(1);
};
process.once("disconnect", giveUp);
vitest = await createVitest("test", {
  ...{ root: ROOT, config, watch: false, run: true, reporters: ["dot"] },
});
await vitest.standalone();
const project = vitest.getRootProject();
for (let tests = []; ;) {
  process.send({ tests });
  const [{ file, titles }] = await once(process, "message");
  if (file === undefined) break;
  const named = project.createSpecification(path.join(ROOT, file), {
    testNamePattern: new RegExp(titles.map(titlePattern).join("|")),
  });
  const { testModules } = await vitest.runTestSpecifications([named]);
  tests = testModules.flatMap((module) => testsOf(file, module));
}
await vitest.close();
process.off("disconnect", giveUp);
process.disconnect();

/** Those that ran; a file that could not be loaded is a failed test without a name. */
function testsOf(file, module) {
  const tests = [...module.children.allTests()];
  if (tests.length === 0 || module.errors().length > 0)
    return [{ file, fullName: "", status: "failed", ms: 0 }];
  return tests
    .map((test) => ({
      file,
      fullName: test.fullName.replaceAll(" > ", " "),
      status: test.result().state,
      ms: test.diagnostic()?.duration ?? 0,
    }))
    .filter(({ status }) => status === "passed" || status === "failed");
}
