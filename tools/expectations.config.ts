/** @file How `npm run expectations` runs the tests that its page names: those of all projects on a server, one file after the other in each of its lines. */

import { defineConfig } from "vitest/config";
import { KEPT_SOURCES, ON_A_SERVER } from "../vitest.config.ts";

export default defineConfig({
  test: {
    ...KEPT_SOURCES,
    ...ON_A_SERVER,
    pool: "forks",
    include: ["test/{integration,attacks,browser}/**/*.test.ts"],
  },
});
