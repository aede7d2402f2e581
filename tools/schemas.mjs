/**
 * @file Writes `schemas/*.schema.json` from the schemas that the parsers use, so that editors and parsers cannot disagree.
 *
 * A unit test holds the committed files equal to what this writes.
 */

import { writeFileSync } from "node:fs";
import path from "node:path";
import { ROOT, say, setup } from "./setup.mjs";

await setup();
const { JOB_JSON_SCHEMA } = await import("../dist/domain/job/job-schema.js");
const { FLEET_JSON_SCHEMA } = await import("../dist/domain/fleet/fleet-schema.js");

for (const [name, schema] of [
  ["job", JOB_JSON_SCHEMA],
  ["fleet", FLEET_JSON_SCHEMA],
]) {
  const file = path.join("schemas", `${name}.schema.json`);
  writeFileSync(path.join(ROOT, file), `${JSON.stringify(schema, null, 2)}\n`);
  say(`wrote ${file}`);
}
