/** Where a model is served, and who is asked for a token there. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { servingPlace } from "../../cli/serving/place.ts";

const cwd = mkdtempSync(join(tmpdir(), "orbweaver-serving-"));
writeFileSync(join(cwd, "token"), "t0ken\n");
afterAll(() => rmSync(cwd, { recursive: true, force: true }));

test("on loopback only our own user is answered, so there is no token", () => {
  expect(servingPlace({}, { env: {}, cwd }).listen).toEqual({ host: "127.0.0.1", port: 8000 });
});

test("a job on a host of a larger fleet makes a token for each start and says it in its log", () => {
  const env = { ORBWEAVER_ADDRESS: "10.0.0.7" };
  const [one, other] = [servingPlace({}, { env, cwd }), servingPlace({}, { env, cwd })];
  expect(one.listen.host).toBe("0.0.0.0");
  expect(one.listen.token).toMatch(/^[A-Za-z0-9_-]{32}$/);
  expect(one.tokenNote).toContain(one.listen.token);
  expect(one.listen.token).not.toBe(other.listen.token);
});

test.each([
  ["the flag", { tokenFile: "token" }, {}],
  ["the job's environment", {}, { ORBWEAVER_SERVING_TOKEN_FILE: "token" }],
])("a token of the user's by %s is taken and not said", (_name, values, more) => {
  const place = servingPlace(values, { env: { ORBWEAVER_ADDRESS: "10.0.0.7", ...more }, cwd });
  expect(place.listen.token).toBe("t0ken");
  expect(place.tokenNote).toBeUndefined();
});

test("an empty token file is refused", () => {
  writeFileSync(join(cwd, "empty"), "\n");
  expect(() => servingPlace({ tokenFile: "empty" }, { env: {}, cwd })).toThrow(/is empty/);
});

test("everybody is answered only when the user says so", () => {
  const { listen } = servingPlace({ host: "0.0.0.0", anyone: true }, { env: {}, cwd });
  expect(listen).toEqual({ host: "0.0.0.0", port: 8000, isOpen: true });
});
