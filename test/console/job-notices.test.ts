/** @file Notices to addresses that jobs name: whom the console sends to, what it refuses where it sends, and that none is lost while a job cannot be read. */

import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createNetServer, type AddressInfo, type Server } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import type { JobRecord, NoticeRow } from "../../console/history/database.ts";
import { openHistory } from "../../console/history/database.ts";
import { createKeeper } from "../../console/history/keeper.ts";
import { createJobAddresses } from "../../console/notices/job-addresses.ts";
import {
  createJobSender,
  nameOf,
  recipientNamed,
  type JobSenderOptions,
} from "../../console/notices/job-recipient.ts";
import { createOutbox } from "../../console/notices/outbox.ts";
import type { LookUp } from "../../console/notices/post.ts";
import { isPublicAddress } from "../../console/notices/public-address.ts";
import type { JobNoticeRule } from "../../domain/fleet/job-notices.ts";
import type { JobNotice } from "../../domain/job/job-notice.ts";
import { hookServer } from "../support/hook-server.ts";

const scratch = mkdtempSync(path.join(tmpdir(), "orbweaver-job-notices-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const { signal } = new AbortController();
const row: NoticeRow = {
  ...{ id: "ended:j:r", target: "t", atMs: 0 },
  body: JSON.stringify({ fleet: "eu", text: "<j> ended" }),
};

describe("public addresses", () => {
  it.each(["8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "2606:4700::1111", "2a00::1"])(
    "%s is one",
    (ip) => expect(isPublicAddress(ip)).toBe(true),
  );
  it.each([
    ...["127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254"],
    ...["100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.0.192"],
    ...["::1", "::", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "::ffff:8.8.8.8", "ff02::1"],
    ...[
      "64:ff9b::a9fe:a9fe",
      "2002:7f00:1::",
      "2001::1",
      "2001:db8::1",
      "fec0::1",
      "a.example",
      "",
    ],
  ])("%s is none", (ip) => expect(isPublicAddress(ip)).toBe(false));
});

describe("sending to an address of a job", () => {
  const servers: Server[] = [];
  afterEach(() => servers.splice(0).forEach((server) => server.close()));

  const listen = (status: number, headers?: Record<string, string>) =>
    hookServer(servers, status, headers);

  const send = (
    address: string,
    rules: readonly JobNoticeRule[],
    {
      way = "webhook",
      ...more
    }: Partial<JobSenderOptions> & { readonly way?: JobNotice["way"] } = {},
  ): Promise<void> =>
    createJobSender({ folder: scratch, rules: () => rules, signal, ...more })(
      recipientNamed(nameOf({ way, address })),
      row,
      12_345,
    );
  const standsFor =
    (...ips: readonly string[]): LookUp =>
    (_host, _options, done) =>
      done(
        null,
        ips.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
      );

  it("signs it with the secret of the rule, and tells Slack in its form", async () => {
    const { got, port } = await listen(204);
    writeFileSync(path.join(scratch, "hook.secret"), "s3cret\n");
    const base = `http://127.0.0.1:${port}`;
    const rules = [{ address: `${base}/team`, secretFile: "hook.secret" }];
    await send(`${base}/team/x`, rules);
    await send(`${base}/team/y`, rules, { way: "slack" });
    const sum = createHmac("sha256", "s3cret").update(`12.${row.body}`).digest("hex");
    expect(got[0]).toMatchObject({
      body: row.body,
      headers: { "x-orbweaver-notice": row.id, "x-orbweaver-signature": `t=12,v1=${sum}` },
    });
    expect(got[1]?.body).toBe('{"text":"eu: &lt;j&gt; ended"}');
    expect(got[1]?.headers["x-orbweaver-signature"]).toBeUndefined();
  });

  it("sends nothing to what the fleet file lists no longer", async () => {
    const { got, port } = await listen(204);
    const base = `http://127.0.0.1:${port}`;
    await expect(send(`${base}/x`, [])).rejects.toThrow("lets jobs name it no longer");
    await expect(send(`${base}/x`, [{ address: `${base}/y` }])).rejects.toThrow("no longer");
    await expect(send(`${base}/y/../x`, [{ address: `${base}/y` }])).rejects.toThrow("no longer");
    expect(got).toEqual([]);
  });

  it.each([["127.0.0.1"], ["::1"], ["8.8.8.8", "127.0.0.1"], ["169.254.169.254"]])(
    "sends nothing to a name that stands for %s, unless the fleet file says so",
    async (...ips) => {
      const { got, port } = await listen(204);
      const address = `http://hooks.example:${port}`;
      const asked = { lookUp: standsFor(...ips) };
      await expect(send(`${address}/x`, [{ address }], asked)).rejects.toThrow(/private: true/);
      expect(got).toEqual([]);
    },
  );

  it("sends to a name of a private network where the fleet file says so", async () => {
    const { got, port } = await listen(204);
    const address = `http://localhost:${port}`;
    await expect(send(`${address}/x`, [{ address }])).rejects.toThrow(/private: true/);
    await send(`${address}/x`, [{ address, private: true }]);
    expect(got).toHaveLength(1);
  });

  it("follows no redirect", async () => {
    const elsewhere = await listen(200);
    const redirecting = await listen(307, { location: `http://127.0.0.1:${elsewhere.port}/` });
    const address = `http://127.0.0.1:${redirecting.port}`;
    await expect(send(`${address}/x`, [{ address }])).rejects.toThrow("307");
    expect(elsewhere.got).toEqual([]);
  });

  it("gives up on a server that changes the protocol instead of answering", async () => {
    const server = createNetServer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", () => {
        socket.write(
          "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        );
      });
    }).listen(0, "127.0.0.1");
    servers.push(server);
    await once(server, "listening");
    const address = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
    await expect(send(`${address}/x`, [{ address }])).rejects.toThrow("it cannot be reached");
  });

  it("says nothing of an address but its host", () => {
    const name = nameOf({ way: "slack", address: "https://hooks.slack.com/services/T/B/s3cret" });
    expect(recipientNamed(name)).toEqual({
      name,
      shownAs: "an address of jobs at https://hooks.slack.com",
    });
  });
});

describe("the notices of a job", () => {
  const RECORD: JobRecord = {
    ...{ job: "j", run: "r", name: "n", tenant: "red", class: "training", user: "ada" },
    ...{ gpus: 8, tasks: 0, submittedMs: 0, endedMs: 5, outcome: "failed", why: "COMMAND_FAILED" },
  };
  const HOOK = "https://hooks.example.org/x";
  const entry: JobNotice = { way: "webhook", address: HOOK, on: ["ended"] };
  const outboxOf = (
    rules: readonly JobNoticeRule[],
    read: (job: string) => Promise<readonly JobNotice[]>,
  ) =>
    createOutbox({
      ...{ fleet: "f", targets: () => [], jobRules: () => rules, sinceMs: 0, nowMs: () => 10 },
      addresses: createJobAddresses(read),
    });
  const LISTED = [{ address: HOOK }];

  it("go to those that its file names and the fleet file lists", async () => {
    const asked: string[] = [];
    const others: JobNotice[] = [
      { ...entry, on: ["started"] },
      { ...entry, address: "https://elsewhere.example/x" },
    ];
    const outbox = outboxOf(LISTED, (job) => {
      asked.push(job);
      return Promise.resolve([entry, ...others]);
    });
    const targets = (await outbox.ofEnd(RECORD)).map(({ target }) => target);
    expect(targets).toEqual([`webhook ${HOOK}`]);
    await outbox.ofEnd(RECORD);
    expect(asked).toEqual(["j"]);
  });

  it("are not even looked for where the fleet file lists no address", async () => {
    const outbox = outboxOf([], () => Promise.reject(new Error("read")));
    expect(await outbox.ofEnd(RECORD)).toEqual([]);
    expect(await outbox.ofJobs(undefined, 10)).toEqual([]);
  });

  it("are kept, and the place up to which the history was read stays, while its file cannot be read", async () => {
    let isAway = true;
    const outbox = outboxOf(LISTED, () =>
      isAway
        ? Promise.reject(new Error("away"))
        : Promise.resolve([{ ...entry, on: ["gpu-idle"] }]),
    );
    const database = await openHistory(path.join(scratch, "kept.db"), { isNew: true });
    const keeper = createKeeper(database, () => Promise.resolve(undefined), { outbox });
    keeper.tell(
      outbox.ofIdle({
        ...{ job: "j", tenant: "red", class: "training", gpus: 8, lease: "l", idleMs: 1 },
        rule: { afterMs: 1, act: "notify" },
      } as Parameters<typeof outbox.ofIdle>[0]),
    );
    keeper.reached({ run: "r", event: 5, atMs: 5 });
    await expect(keeper.keep(10)).rejects.toThrow("away");
    expect(database.cursor()).toBeUndefined();
    expect(database.dueAddresses({ nowMs: 10, most: 10, after: "" })).toEqual([]);
    isAway = false;
    await keeper.keep(20);
    expect(database.cursor()).toMatchObject({ event: 5 });
    expect(database.dueAddresses({ nowMs: 20, most: 10, after: "" })).toEqual([`webhook ${HOOK}`]);
    database.close();
  });

  it("go to every address in its turn, however many there are that fail", async () => {
    const database = await openHistory(path.join(scratch, "turns.db"), { isNew: true });
    const all = Array.from({ length: 12 }, (_, at) => `webhook https://a/${String(10 + at)}`);
    const notices = all.map((target) => ({ ...row, target }));
    database.write({ leases: [], due: [], notices: [...notices, { ...row, target: "ops" }] });
    let after = "";
    const turn = (): readonly string[] => {
      const found = database.dueAddresses({ nowMs: 10, most: 5, after });
      after = found.at(-1) ?? "";
      return found;
    };
    expect([turn(), turn(), turn()]).toEqual([
      all.slice(0, 5),
      all.slice(5, 10),
      [...all.slice(10), ...all.slice(0, 3)],
    ]);
    expect(database.dueAddresses({ nowMs: 10, most: 50, after })).toHaveLength(12);
    database.close();
  });
});
