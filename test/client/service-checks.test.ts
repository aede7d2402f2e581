/** @file A list of jobs of any length is put to a submit service in requests that it reads, and its lines of a log are told. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import type { JobFile } from "../../client/index.ts";
import { openServiceClient } from "../../client/service-client.ts";
import { MAX_JOB_FILE_BYTES } from "../../domain/lease/job-size.ts";

it("asks about many jobs, and about large ones, in several requests, and about none in none", async () => {
  const requests: { readonly names: readonly string[]; readonly bytes: number }[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { jobs } = JSON.parse(body) as { readonly jobs: readonly JobFile[] };
      requests.push({ names: jobs.map(({ name }) => name), bytes: body.length });
      response.setHeader("Content-Type", "application/json").end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const url = new URL(`http://127.0.0.1:${String(port)}`);
    const client = openServiceClient({ url }, "f");
    const asked = async (count: number, argument: string): Promise<readonly number[]> => {
      requests.length = 0;
      const jobs = Array.from({ length: count }, (_, at): JobFile => {
        return { name: `j${String(at)}`, gang: 1, run: { command: ["true", argument] } };
      });
      await client.checkStarts(jobs);
      expect(requests.flatMap(({ names }) => names)).toEqual(jobs.map(({ name }) => name));
      for (const { bytes } of requests) expect(bytes).toBeLessThan(2 * MAX_JOB_FILE_BYTES);
      return requests.map(({ names }) => names.length);
    };
    expect(await asked(0, "")).toEqual([]);
    for (const each of await asked(2_500, "")) expect(each).toBeLessThanOrEqual(1_000);
    expect(await asked(3, "x".repeat(MAX_JOB_FILE_BYTES - 1_000))).toEqual([1, 1, 1]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

it("tells of a followed host that does not answer, and goes on", async () => {
  const lines = [{ text: "a" }, { text: "", lost: 3 }, { text: "b" }, { isEnd: true }];
  const server = createServer((_request, response) => {
    response.setHeader("Content-Type", "application/x-ndjson");
    response.end(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const url = new URL(`http://127.0.0.1:${String(port)}`);
    const lost: number[] = [];
    const options = { follow: true, onLost: (rank: number) => void lost.push(rank) };
    let said = "";
    for await (const part of openServiceClient({ url }, "f").job("j").logs(options)) said += part;
    expect([said, lost]).toEqual(["ab", [3]]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
