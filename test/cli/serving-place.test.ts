/** Where a model is served, and who is asked for a token there. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { servingPlace } from "../../cli/serving/place.ts";

const cwd = mkdtempSync(join(tmpdir(), "orbweaver-serving-"));
const machine = { cwd, hasGpus: () => false };
writeFileSync(join(cwd, "token"), "t0ken\n");
afterAll(() => rmSync(cwd, { recursive: true, force: true }));

test("on loopback only our own user is answered, so there is no token", () => {
  expect(servingPlace({}, { env: {}, ...machine }).listen).toEqual({
    host: "127.0.0.1",
    port: 8000,
  });
});

test("a job on a host of a larger fleet makes a token for each start and says it in its log", () => {
  const env = { ORBWEAVER_ADDRESS: "10.0.0.7" };
  const [one, other] = [
    servingPlace({}, { env, ...machine }),
    servingPlace({}, { env, ...machine }),
  ];
  expect(one.listen.host).toBe("0.0.0.0");
  expect(one.listen.token).toMatch(/^[A-Za-z0-9_-]{32}$/);
  expect(one.tokenNote).toContain(one.listen.token);
  expect(one.listen.token).not.toBe(other.listen.token);
});

test.each([
  ["the flag", { tokenFile: "token" }, {}],
  ["the job's environment", {}, { ORBWEAVER_SERVING_TOKEN_FILE: "token" }],
])("a token of the user's by %s is taken and not said", (_name, values, more) => {
  const place = servingPlace(values, {
    env: { ORBWEAVER_ADDRESS: "10.0.0.7", ...more },
    ...machine,
  });
  expect(place.listen.token).toBe("t0ken");
  expect(place.tokenNote).toBeUndefined();
});

test("an empty token file is refused", () => {
  writeFileSync(join(cwd, "empty"), "\n");
  expect(() => servingPlace({ tokenFile: "empty" }, { env: {}, ...machine })).toThrow(/is empty/);
});

test("everybody is answered only when the user says so", () => {
  const { listen } = servingPlace({ host: "0.0.0.0", anyone: true }, { env: {}, ...machine });
  expect(listen).toEqual({ host: "0.0.0.0", port: 8000, isOpen: true });
});

test.each([
  ["the flag, whatever the job says", { devices: "cpu" }, "cuda", true, "cpu"],
  ["the job, whatever the machine shows", {}, "cpu", true, "cpu"],
  ["the job on a machine that shows no GPU", {}, "cuda", false, "cuda"],
  ["a machine with GPUs", {}, undefined, true, "cuda"],
  ["a machine without, when the word is none that is known", {}, "abacus", false, "cpu"],
] as const)("the devices are said by %s", (_name, values, said, hasGpus, want) => {
  const env = said === undefined ? {} : { ORBWEAVER_SERVING_DEVICES: said };
  const place = servingPlace(values, { env, cwd, hasGpus: () => hasGpus });
  expect(place.devices).toBe(want);
});
