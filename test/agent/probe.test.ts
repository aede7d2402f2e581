/** @file A probe of a link, both ends on loopback: what it measures, whom the door turns away, and what counts as no answer. */
import { connect, createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { createLinkActivities } from "../../agent/link-probe/link-activities.ts";
import { listenForProbe, type Listener } from "../../agent/link-probe/probe-listener.ts";
import { connectProbe } from "../../agent/link-probe/probe-connector.ts";
import { frame, openMeter, readFrame } from "../../agent/link-probe/probe-wire.ts";
import type { ProbeListener } from "../../protocol/link-contract.ts";
import { parseHostId } from "../../domain/values/ids.ts";

const HOST = parseHostId("eu-1/h1");
const never = new AbortController().signal;
const open: Listener[] = [];
afterEach(async () => {
  for (const listener of open.splice(0)) {
    listener.close();
    await listener.closed;
  }
});

async function doorOn(address: string): Promise<ProbeListener> {
  const setting = { address, openMs: 60_000, mostBytes: 2 ** 20, closing: never };
  const listener = await listenForProbe(setting);
  open.push(listener);
  return { host: HOST, address, port: listener.port, token: listener.token };
}
const order = (listener: ProbeListener, withinMs = 60_000) => ({
  host: HOST,
  listener,
  mostBytes: 2 ** 20,
  withinMs,
});

test.each([
  { name: "one address at both ends is one machine", address: "127.0.0.1", wantLocal: true },
  { name: "two addresses are two", address: "127.0.0.7", wantLocal: false },
])("it comes through, with a round trip and a rate each way; $name", async (each) => {
  const report = await connectProbe(order(await doorOn(each.address)), never);
  expect(report).toMatchObject({ kind: "through", isLocal: each.wantLocal });
  if (report.kind !== "through") return;
  expect(report.roundTripMs).toBeGreaterThan(0);
  expect(Math.min(report.thereGbps, report.backGbps)).toBeGreaterThan(0);
  expect(report.bytes).toBeGreaterThanOrEqual(2 * 256 * 1024);
});

test("a door is for one guest: it is gone afterwards", async () => {
  const listener = await doorOn("127.0.0.1");
  expect((await connectProbe(order(listener), never)).kind).toBe("through");
  await open[0]?.closed;
  expect((await connectProbe(order(listener), never)).kind).toBe("no-answer");
});

test("whoever does not begin with the token is turned away, and the guest still gets in", async () => {
  const listener = await doorOn("127.0.0.1");
  const stranger = connect(listener.port, "127.0.0.1");
  stranger.write("GET / HTTP/1.1\r\nHost: somebody-else\r\n\r\n");
  await once(stranger, "close");
  const token = "0".repeat(listener.token.length);
  expect((await connectProbe(order({ ...listener, token }), never)).kind).toBe("no-answer");
  expect((await connectProbe(order(listener), never)).kind).toBe("through");
});

test.each([
  { name: "an end that takes and says nothing", greets: false },
  { name: "an end that is no door of ours", greets: true },
])("$name is no answer, within the time that was given", async ({ greets }) => {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    if (greets) socket.write("220 mail.example.org ready\r\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const listener = { host: HOST, address: "127.0.0.1", port, token: "t".repeat(32) };
  expect((await connectProbe(order(listener, 300), never)).kind).toBe("no-answer");
  server.close();
});

test("an agent is in one probe at a time, and for its own hosts only", async () => {
  const closing = new AbortController();
  const agent = createLinkActivities({
    hosts: new Set([HOST]),
    address: "127.0.0.1",
    task: () => ({ cancelled: never }),
    closing: closing.signal,
  });
  const ask = () => agent.listenForProbe({ host: HOST, openMs: 60_000 });
  const waiting = await ask();
  // Nobody came: the probe that it was for is over.
  const listener = await ask();
  expect((await connectProbe(order(waiting), never)).kind).toBe("no-answer");
  const guest = connect(listener.port, "127.0.0.1");
  guest.write(listener.token);
  guest.write(frame("p", 1));
  await once(guest, "data");
  await expect(ask()).rejects.toMatchObject({ type: "HOST_REFUSED" });
  await expect(agent.connectProbe(order(listener))).rejects.toMatchObject({ type: "HOST_REFUSED" });
  guest.destroy();
  await expect(
    agent.listenForProbe({ host: parseHostId("eu-1/h2"), openMs: 1 }),
  ).rejects.toMatchObject({
    type: "HOST_REFUSED",
  });
  await expect
    .poll(
      () =>
        ask().then(
          () => true,
          () => false,
        ),
      { timeout: 60_000 },
    )
    .toBe(true);
  closing.abort();
});

test("the rate is that of the second half, by the clock of who receives", () => {
  const meter = openMeter(4_000_000);
  const pieces = [
    [1_000_000, 100],
    [1_000_000, 200],
    [1_000_000, 201],
    [1_000_000, 202],
  ] as const;
  expect(pieces.map(([bytes, atMs]) => meter.add(bytes, atMs))).toEqual([
    false,
    false,
    false,
    true,
  ]);
  // 16 megabits in 2 ms.
  expect(meter.gbps()).toBeCloseTo(8, 9);
});

test("frames are read as they were written, and noise is none", () => {
  expect(readFrame(frame("u", 2 ** 40))).toEqual({ kind: "u", value: 2 ** 40 });
  expect(readFrame(frame("d", -1))).toBeUndefined();
  expect(readFrame(Buffer.from("x12345678", "latin1"))).toBeUndefined();
});
