/**
 * @file Three test projects: `unit` runs offline; `patient` and `busy` are the halves of the integration tests. The files of a half run
 * one after the other on one real Temporal server; the halves run at the same time, each on a server of its own.
 */
import { configDefaults, defineConfig } from "vitest/config";

/** Mostly wait: for silence to be noticed, for protected time to pass, for checkpoints. About as long as all the others together. */
const PATIENT = ["array", "fence", "frozen-query", "preemption", "presence", "silence"].map(
  (name) => `test/integration/${name}.test.ts`,
);

const ON_A_SERVER = {
  globalSetup: ["test/support/server-setup.ts"],
  testTimeout: 120_000,
  hookTimeout: 120_000,
  fileParallelism: false,
};

export default defineConfig({
  test: {
    pool: "forks",
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: ["test/integration/**"],
          setupFiles: ["test/support/unit-setup.ts"],
          testTimeout: 120_000,
          // Files share the modules that a worker has loaded: a third of the time went into loading them again for each.
          isolate: false,
          maxWorkers: "100%",
        },
      },
      { extends: true, test: { ...ON_A_SERVER, name: "patient", include: PATIENT } },
      {
        extends: true,
        test: {
          ...ON_A_SERVER,
          name: "busy",
          include: ["test/integration/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...PATIENT],
        },
      },
    ],
  },
});
