/** @file Truth in `explain` on a real fleet: one place in the queue everywhere, why nobody gives way, and jobs that will never start. */

import { parse } from "yaml";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readCsv } from "../../domain/values/csv.ts";
import type { JobFile } from "../../client/index.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";

/** One host of four GPUs in the EU; nothing is kept free for inference to come. */
const FLEET = `
name: truthful
policy: { reserve: 0 }
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    hosts:
      - { name: a1, gpus: 4, type: H100 }
tenants:
  - { name: small, weight: 1, quota: { H100: 2 }, borrowing: 1 }
`;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
});
afterAll(() => world.stop());

const SLEEP = { run: { command: ["sleep", "600"] } };
const submit = async (file: Partial<JobFile> & { readonly name: string }): Promise<string> =>
  (await world.orbweaver.submit({ ...SLEEP, ...file } as JobFile, { isQueuedAnyway: true })).jobId;
const document = async (...args: readonly string[]): Promise<Record<string, unknown>> =>
  JSON.parse((await world.cli(args)).stdout) as Record<string, unknown>;

it("says what starts at once, what a tenant has borrowed, and completes words by what the fleet has", async () => {
  const now = await world.cli(["submit", "--what-if", "--json", "--gpus", "3", "--", "true"]);
  expect([now.code, JSON.parse(now.stdout)]).toMatchObject([0, { kind: "starts" }]);
  const borrows = await submit({ name: "borrows", tenant: "small", gang: 3 });
  await world.until("it runs", ({ leases }) =>
    [...leases.values()].some(({ state }) => state === "held"),
  );
  const queue = await document("queue", "--json");
  const quota = { tenant: "small", nominalGpus: 2, usedGpus: 3, borrowedGpus: 1, lentGpus: 0 };
  expect(queue["quotas"]).toMatchObject([quota]);

  const completed = async (words: readonly string[]): Promise<readonly string[]> =>
    (await world.cli(["complete", "--", ...words])).stdout
      .split("\n")
      .flatMap((line) => line.split("\t")[0] ?? []);
  // A completion gives a fleet little time to answer, and a busy machine may need more.
  for (const { words, want } of [
    { words: ["drain", ""], want: "alpha/a1" },
    { words: ["list", "--tenant", "s"], want: "small" },
    { words: ["submit", "--cluster", ""], want: "alpha" },
    { words: ["status", ""], want: borrows },
    { words: ["status", borrows, "--js"], want: "--json" },
  ])
    await expect.poll(() => completed(words), { interval: 500 }).toContain(want);

  const verbs = [["list"], ["queue"], ["explain", borrows], ["status", borrows], ["fleet", "show"]];
  for (const verb of verbs) {
    const yaml = parse((await world.cli([...verb, "-o", "yaml"])).stdout) as object;
    const same = await document(...verb, "--json");
    expect(Object.keys(yaml), verb.join(" ")).toEqual(Object.keys(same));
  }
  await world.orbweaver.job(borrows).cancel();
  await world.until("nothing runs", ({ leases }) => leases.size === 0);
});

it("tells one place everywhere, who keeps the GPUs by which rule, and what would never start", async () => {
  const runs = await submit({ name: "runs", class: "inference", gang: 4 });
  await world.until("it runs", ({ leases }) => leases.size === 1);
  const waits = [
    await submit({ name: "first", gang: 2 }),
    await submit({ name: "second", gang: 1 }),
    await submit({ name: "urgent", gang: 1, priority: 50 }),
    await submit({ name: "large", gang: 64 }),
  ];
  await world.until("all have been looked at", ({ reasons }) =>
    waits.every((job) => [...reasons.keys()].some((each) => each === job)),
  );

  const queue = await document("queue", "--json");
  expect(queue).toMatchObject({
    classes: [
      { class: "inference" },
      { class: "training", tenants: [{ tenant: "default", weight: 1, waiting: 4 }] },
    ],
    // Its two GPUs are neither used by it nor free.
    quotas: [
      {
        tenant: "small",
        gpuType: "H100",
        nominalGpus: 2,
        usedGpus: 0,
        borrowedGpus: 0,
        lentGpus: 2,
      },
    ],
  });
  const places = (queue["jobs"] as readonly { jobId: string; position: number }[]).map(
    ({ jobId, position }) => [jobId, position] as const,
  );
  expect(places.map(([, position]) => position)).toEqual([1, 2, 3, 4]);
  for (const [job, position] of places)
    expect(await document("explain", job, "--json")).toMatchObject({
      fleet: { position, waiting: 4 },
    });
  const listed = async (): Promise<unknown> => {
    const words = ["list", "--state", "pending", "--sort", "place", "--columns", "job,place"];
    const { rows } = readCsv((await world.cli([...words, "-o", "csv"])).stdout);
    return rows.map(({ cells }) => [cells[0], Number(cells[1])]);
  };
  await expect.poll(listed).toEqual(places);

  const [first = "", , , large = ""] = waits;
  const asked = (await document("explain", first, "--json"))["forecast"];
  expect(asked).toMatchObject({ plays: expect.any(Number), runs: expect.any(Number) });
  const explained = await world.cli(["explain", first]);
  const placeOfFirst = places.find(([job]) => job === first)?.[1] ?? 0;
  expect(explained.stdout).toMatch(
    new RegExp(`place +${String(placeOfFirst)} of 4 in the queue\n`),
  );
  expect(explained.stdout).toMatch(/not yielding +1 job on 4 GPUs: may not be preempted\n/);
  expect(explained.stdout).toMatch(new RegExp(`held by +${runs}\n`));
  const never = await world.cli(["explain", large]);
  expect(never.stdout).toMatch(/^\S+ will never start: NoMatchingFlavor\n/);
  expect(never.stdout).toMatch(/would change it +ask for 4 of the 64 GPUs/);

  const whatIf = (...words: readonly string[]) =>
    world.cli(["submit", "--what-if", "--json", ...words, "--", "true"]);
  const next = await whatIf("--gpus", "1");
  expect([next.code, JSON.parse(next.stdout)]).toMatchObject([
    0,
    { kind: "waits", waiting: 5, notYielding: [{ rule: "not-preemptible", leases: 1, gpus: 4 }] },
  ]);
  const impossible: readonly (readonly [words: readonly string[], code: string, change: string])[] =
    [
      [
        ["--jurisdiction", "US"],
        "NoMatchingFlavor",
        "allow other jurisdictions than US: alpha has room",
      ],
      [["--tenant", "small"], "ExceedsMaxQuota", "raise the quota of tenant small"],
    ];
  for (const [words, code, text] of impossible) {
    const { code: status, stdout } = await whatIf("--gpus", "4", ...words);
    const { changes, ...rest } = JSON.parse(stdout) as { readonly changes: readonly unknown[] };
    expect([status, rest]).toMatchObject([5, { kind: "never", reason: { code } }]);
    expect(changes).toContainEqual(expect.objectContaining({ text }));
    const tried = await world.cli(["submit", "--json", "--gpus", "4", ...words, "--", "true"]);
    const { error } = JSON.parse(tried.stdout) as { readonly error: unknown };
    expect([tried.code, error]).toMatchObject([
      5,
      { code: "NEVER_STARTS", message: expect.stringContaining(text) as string },
    ]);
  }
  expect((await world.ledger()).requests.size).toBe(4);

  // Made anew of the present queue for each question.
  const [ahead = "", last = ""] = [places[0]?.[0], places[3]?.[0]];
  await world.orbweaver.job(ahead).cancel();
  await world.until("one has left", ({ requests }) => requests.size === 3);
  expect(await document("explain", last, "--json")).toMatchObject({
    fleet: { position: 3, waiting: 3 },
  });
});
