/** Which start a signature has served first: by one worker or several, over restarts, with a bound, and where the file cannot be written. */

import fc from "fast-check";
import { appendFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { signJob } from "../../access/job-proof.ts";
import { ownIdentity } from "../../access/own-identity.ts";
import { submittedBy } from "../../activities/tickets.ts";
import { usedSignatures } from "../../activities/used-signatures.ts";
import { AMENDED_MEMO } from "../../protocol/job-orders.ts";
import { PROOF_MEMO } from "../../protocol/signed-job.ts";

const dir = mkdtempSync(join(tmpdir(), "orbweaver-used-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
let count = 0;
const newFile = (): string => join(dir, String((count += 1)), "used-signatures");
const noTrouble = (why: string): never => expect.fail(why);

it("is the first start for every worker that shares the file, and for those that come later", () => {
  const word = fc.stringMatching(/^[\w-]{1,9}$/);
  const use = fc.record({ signature: word, start: word, worker: fc.nat(2) });
  fc.assert(
    fc.property(fc.array(use, { maxLength: 30 }), (uses) => {
      const file = newFile();
      const open = () => usedSignatures({ file, onTrouble: noTrouble });
      const workers = [open(), open(), open()];
      const first = new Map<string, string>();
      for (const { signature, start, worker } of uses) {
        if (!first.has(signature)) first.set(signature, start);
        expect(workers[worker]?.firstStart(signature, start)).toBe(first.get(signature));
      }
      for (const [signature, start] of first)
        expect(open().firstStart(signature, "later")).toBe(start);
    }),
    { numRuns: 30 },
  );
});

it("forgets the oldest beyond twice its number, in a file that stays so short, which only its owner reads", () => {
  const file = newFile();
  const setting = { file, onTrouble: noTrouble, kept: 10 };
  const [one, other] = [usedSignatures(setting), usedSignatures(setting)];
  for (let at = 0; at < 100; at += 1) {
    const worker = at % 3 === 0 ? other : one;
    expect(worker.firstStart(`s${String(at)}`, "run")).toBe("run");
  }
  expect(readFileSync(file, "utf8").split("\n").length).toBeLessThan(100);
  expect(statSync(file).mode & 0o077).toBe(0);
  const later = usedSignatures(setting);
  expect(later.firstStart("s99", "later")).toBe("run");
  expect(later.firstStart("s0", "later")).toBe("later");
});

it("takes no line that was cut off, and goes on after it", () => {
  const file = newFile();
  const open = () => usedSignatures({ file, onTrouble: noTrouble });
  open().firstStart("whole", "run");
  appendFileSync(file, "\ncut r");
  expect(open().firstStart("cut", "other")).toBe("other");
  expect(open().firstStart("cut", "later")).toBe("other");
  expect(open().firstStart("whole", "later")).toBe("run");
});

it("is known to the worker where the file cannot be written, which it says", () => {
  const blocker = newFile();
  const said: string[] = [];
  writeFileSync(join(dir, "a-file"), "");
  const file = join(dir, "a-file", blocker.slice(-1));
  const used = usedSignatures({ file, onTrouble: (why) => said.push(why) });
  expect(used.firstStart("s", "run")).toBe("run");
  expect(used.firstStart("s", "later")).toBe("run");
  expect(said[0]).toContain(file);
});

const ada = ownIdentity({ ORBWEAVER_IDENTITY: join(dir, "ada.pem") });
const bob = ownIdentity({ ORBWEAVER_IDENTITY: join(dir, "bob.pem") });
const content = { run: { command: ["true"] } };
const sign = (job: object, by = ada): string =>
  signJob({ jobId: "job", content, ...job }, by, 1_000_000);

it.each<readonly [string, readonly unknown[], string]>([
  ["its signature", [sign({})], "one"],
  ["its signature among amendments", [undefined, sign({})], "one"],
  ["its signature behind another's", [sign({}), sign({}, bob)], "one"],
  ["another's", [sign({}, bob)], "two"],
  ["that of another job", [sign({ jobId: "other" })], "two"],
  ["one for its own run alone", [sign({ run: "two" })], "two"],
])("of a second workflow with %s in its memo", async (_name, [first, ...amended], want) => {
  const used = usedSignatures({ file: newFile(), onTrouble: noTrouble });
  const submitted = (firstRunId: string, memo: object) =>
    submittedBy(
      {
        workflowId: "job",
        describe: () => Promise.resolve({ memo, raw: { workflowExecutionInfo: { firstRunId } } }),
      } as never,
      used,
    );
  expect(await submitted("one", { [PROOF_MEMO]: sign({}) })).toMatchObject({ start: "one" });
  const memo = { [PROOF_MEMO]: first, [AMENDED_MEMO]: amended };
  expect(await submitted("two", memo)).toMatchObject({ start: want });
  // Again, as after a lost lease.
  expect(await submitted("one", { [PROOF_MEMO]: sign({}) })).toMatchObject({ start: "one" });
});
