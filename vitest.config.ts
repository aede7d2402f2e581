/**
 * @file Six test projects. `unit` runs offline; `browser` looks at the console's page in Chromium, where there is one; `fallback` repeats the
 * tests of launches with the supervisor in Node; `server` runs files beside each other on real Temporal servers, each of them alone on its own;
 * `floods` runs the attacks that leave nothing of the machine to others, one after the other; `upgrade` the former release and this one in turns.
 */
import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Wait longest: for protected time to pass, for fences, for heartbeats that do not come. Begun first, they end with the others. */
const LONGEST = [
  ...["preemption", "broken-gpu", "recovery", "storm", "array", "lost-host", "books", "cron"],
  ...[
    "replicas",
    "metrics",
    "fence",
    "backup",
    "silence",
    "bandwidth-model",
    "documented-commands",
  ],
].map((name) => `test/integration/${name}.test.ts`);

/** Each floods a fleet with as much as a machine can send. */
const FLOODS = [
  ...[
    "at-the-limit",
    "fair-inbox",
    "fair-tasks",
    "floods",
    "floods-in-a-row",
    "heavy-words",
    "junk",
  ],
].map((name) => `test/attacks/${name}.test.ts`);

/** As many files on a server run at the same time: they wait more than they work. */
const LANES = 4;

/** The longest first, so that no lane runs on alone; attacks last, as they leave workflows behind that nobody can read. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification): number => {
      if (LONGEST.some((name) => moduleId.endsWith(name))) return 0;
      return moduleId.includes("/test/attacks/") ? 2 : 1;
    };
    const sorted = await super.sort(files);
    return [...sorted].sort((one, other) => placeOf(one) - placeOf(other));
  }
}

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
const PATIENCE_ON_A_SERVER = { poll: { timeout: 300_000, interval: 250 } };

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

/** What one run has made of a source is taken by the next, by its text: that was two thirds of the processor time of Vitest itself. */
export const KEPT_SOURCES = {
  experimental: { fsModuleCache: true, fsModuleCachePath: "dist/.tested-sources" },
};

export default defineConfig({
  test: {
    ...KEPT_SOURCES,
    pool: "forks",
    sequence: { sequencer: LongestFirst },
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
      {
        extends: true,
        test: {
          ...ON_A_SERVER,
          name: "server",
          include: ["test/{integration,attacks}/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...FLOODS],
          fileParallelism: true,
          maxWorkers: LANES,
          // Vitest runs projects with other numbers of workers in other groups.
          sequence: { groupOrder: 1 },
        },
      },
      { extends: true, test: { ...ON_A_SERVER, name: "floods", include: FLOODS } },
      {
        extends: true,
        test: { ...ON_A_SERVER, name: "upgrade", include: ["test/upgrade/**/*.test.ts"] },
      },
    ],
  },
});
