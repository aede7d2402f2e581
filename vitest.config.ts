/**
 * @file Nine test projects: `unit` runs offline; `browser` looks at the console's page in Chromium, where there is one; `fallback` repeats the tests of launches with the supervisor in Node; `patient`, `steady` and `busy` are the thirds of the integration tests. The files of a third
 * run one after the other on one real Temporal server; the thirds run at the same time, each on a server of its own. `rights` attacks who may do what, beside them; `attacks` floods a fleet.
 * `upgrade` runs the former release and this one in turns.
 */
import { configDefaults, defineConfig } from "vitest/config";

const files = (...names: readonly string[]): string[] =>
  names.map((name) => `test/integration/${name}.test.ts`);

/** Mostly wait: for protected time to pass, for checkpoints, for fences, for heartbeats that do not come. */
const PATIENT = files(
  ...["backup", "books", "broken-gpu", "documented-commands", "fence", "preemption"],
  ...["recovery", "run-input", "silence"],
);
/** Wait and work in turns. About as long as the patient ones, and as all the others together. */
const STEADY = files(
  ...["array", "bandwidth-model", "console-page", "crowd", "dependencies", "frozen-query"],
  ...["lost-host", "measure", "on-demand", "presence", "replicas"],
);

/** Attacks by those who may not: nothing of them is timed, so others may run beside them. */
const RIGHTS = [
  ...["forged-attendants", "forged-words", "orders", "plaintext", "private", "run-as", "secrets"],
  ...["sessions", "submit-service", "submitters", "withdrawn-key"],
].map((name) => `test/attacks/${name}.test.ts`);

/** Launches with real processes: `unit` takes the native supervisor where there is a C compiler. */
const LAUNCHES = [
  ...[
    "adoption",
    "batch",
    "batch-stop",
    "containment",
    "gang",
    "limits",
    "logs",
    "native",
    "restart",
    "run",
    "stop",
  ],
  ...["secrets", "stray-launches", "gpu-wall", "presence/fence"],
].map((name) => `test/agent/${name}.test.ts`);

/** What a test waits for comes within a second on a quiet machine; Vitest's own patience, a second, is too little on a busy one. */
const PATIENCE = { poll: { timeout: 60_000 } };
/** A fleet has periods of half a minute, one may be missed, and a machine with ten times its work takes minutes for what takes seconds elsewhere. */
const PATIENCE_ON_A_SERVER = { poll: { timeout: 300_000 } };

/** Characters of each value in the first line of a failure, which is all that the log of a remote run may show; Vitest's own are 40. */
const SHOWN = { truncateThreshold: 600 };

const OFFLINE = {
  setupFiles: ["test/support/unit-setup.ts"],
  // The longest plays worlds for ten seconds on a quiet machine, and has taken 90 on one that had much else to do.
  testTimeout: 900_000,
  hookTimeout: 900_000,
  // Files share the modules that a worker has loaded: a third of the time went into loading them again for each.
  isolate: false,
  maxWorkers: "100%",
  chaiConfig: SHOWN,
  expect: PATIENCE,
};

export const ON_A_SERVER = {
  globalSetup: ["test/support/server-setup.ts"],
  testTimeout: 900_000,
  hookTimeout: 900_000,
  fileParallelism: false,
  chaiConfig: SHOWN,
  expect: PATIENCE_ON_A_SERVER,
};

export default defineConfig({
  test: {
    pool: "forks",
    // The servers of the run are stopped in it; Vitest would leave them after ten seconds.
    teardownTimeout: 120_000,
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: ["test/integration/**", "test/attacks/**", "test/upgrade/**", "test/browser/**"],
          ...OFFLINE,
        },
      },
      {
        extends: true,
        // One file after the other: they measure.
        test: {
          name: "browser",
          include: ["test/browser/**/*.test.ts"],
          testTimeout: 900_000,
          hookTimeout: 900_000,
          fileParallelism: false,
          expect: PATIENCE,
        },
      },
      {
        extends: true,
        test: {
          name: "fallback",
          include: LAUNCHES,
          env: { ORBWEAVER_SUPERVISOR: "node" },
          ...OFFLINE,
        },
      },
      { extends: true, test: { ...ON_A_SERVER, name: "patient", include: PATIENT } },
      {
        extends: true,
        test: {
          ...ON_A_SERVER,
          name: "attacks",
          include: ["test/attacks/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...RIGHTS],
        },
      },
      {
        extends: true,
        test: { ...ON_A_SERVER, name: "upgrade", include: ["test/upgrade/**/*.test.ts"] },
      },
      { extends: true, test: { ...ON_A_SERVER, name: "steady", include: STEADY } },
      { extends: true, test: { ...ON_A_SERVER, name: "rights", include: RIGHTS } },
      {
        extends: true,
        test: {
          ...ON_A_SERVER,
          name: "busy",
          include: ["test/integration/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...PATIENT, ...STEADY],
        },
      },
    ],
  },
});
