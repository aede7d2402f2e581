/**
 * @file A reporter of vitest: errors that no test caught, e.g. a promise that was rejected after its test, as a list of texts in
 * the file `ORBWEAVER_STRAY_ERRORS`. They fail a run, and no other report of vitest's for programs has them.
 */

import { writeFileSync } from "node:fs";

export default class StrayErrors {
  onTestRunEnd(_modules, errors) {
    const texts = errors.map(({ name, message, stack, VITEST_TEST_PATH: file, cause }) =>
      [file, stack ?? `${name}: ${message}`, cause && `cause: ${cause.stack ?? cause.message}`]
        .filter(Boolean)
        .join("\n"),
    );
    writeFileSync(process.env.ORBWEAVER_STRAY_ERRORS, JSON.stringify(texts));
  }
}
