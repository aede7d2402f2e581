/** @file What the page sends: who may, what is taken, and what becomes of it. */

import { afterEach, describe, expect, it } from "vitest";
import { ordersBy } from "../../console/http/orders.ts";
import {
  isOwnersAlone,
  json,
  startHttpConsole,
  type HttpConsole,
} from "../../console/http/server.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { FleetClient } from "../../client/index.ts";

let open: HttpConsole | undefined;
afterEach(async () => {
  await open?.close();
  open = undefined;
});

async function start(
  client: object,
): Promise<(body: string, headers?: object) => Promise<Response>> {
  const orders = ordersBy(() => client as FleetClient);
  open = await startHttpConsole({
    host: "127.0.0.1",
    port: 0,
    rule: {},
    files: new Map(),
    streams: new Map(),
    posts: new Map([["/api/orders", orders]]),
    answer: () => Promise.resolve(json({})),
  });
  const origin = `http://127.0.0.1:${String(open.port)}`;
  return (body, headers = {}) =>
    fetch(`${origin}/api/orders`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Origin: origin, ...headers },
      body,
    });
}

describe("an order of the page", () => {
  it("is carried out as the command would, and says what became of it", async () => {
    const told: string[] = [];
    const post = await start({
      job: (job: string) => ({
        hold: () => Promise.resolve(void told.push(`hold ${job}`)).then(() => "held"),
        cancel: () => Promise.resolve(void told.push(`cancel ${job}`)),
      }),
      drain: (hosts: readonly string[], reason: string) =>
        Promise.resolve(void told.push(`drain ${hosts.join()} ${reason}`)).then(() => hosts),
      undrain: () => Promise.resolve([]),
    });
    const said = async (order: object): Promise<unknown> =>
      await (await post(JSON.stringify(order))).json();
    expect(await said({ order: "hold", job: "job-1" })).toEqual({ said: "job-1: held" });
    expect(await said({ order: "cancel", job: "job-1" })).toEqual({ said: "job-1: cancelling" });
    expect(await said({ order: "drain", host: "eu/a" })).toEqual({ said: "drain: eu/a" });
    expect(await said({ order: "undrain", host: "eu/a" })).toEqual({ said: "eu/a is so already" });
    expect(told).toEqual(["hold job-1", "cancel job-1", "drain eu/a from the console"]);
  });

  it.each([
    ["another page's", '{"order":"hold","job":"j"}', { Origin: "http://evil.example" }, 401],
    ["a form's", '{"order":"hold","job":"j"}', { "Content-Type": "text/plain" }, 415],
    ["too long", `{"order":"hold","job":"${"j".repeat(5_000)}"}`, {}, 413],
    ["no JSON", "hold j", {}, 400],
    ["of another kind", '{"order":"fence","host":"h"}', {}, 400],
    ["with more in it", '{"order":"hold","job":"j","force":true}', {}, 400],
  ])("%s is refused, and nothing is done", async (_what, body, headers, want) => {
    const post = await start({
      job: () => {
        throw new Error("nothing may be asked");
      },
    });
    expect((await post(body, headers)).status).toBe(want);
  });

  it("that the fleet refuses comes back with its words", async () => {
    const hold = (): Promise<never> =>
      Promise.reject(new OrbweaverError("NOT_ALLOWED", "job-1 belongs to another user"));
    const post = await start({ job: () => ({ hold }) });
    const answer = await post(JSON.stringify({ order: "hold", job: "job-1" }));
    expect(answer.status).toBe(409);
    expect(await answer.text()).toBe("job-1 belongs to another user");
  });

  it("may come where the owner alone can look", () => {
    expect(isOwnersAlone({})).toBe(true);
    expect(isOwnersAlone({ token: "secret" })).toBe(false);
    expect(isOwnersAlone({ isOpen: true })).toBe(false);
  });
});
