/** @file Gangs over several hosts: whole or absent, whatever one host does. */

import { rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JobResult } from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

describe("a gang over several hosts", () => {
  it("gives every rank its place: ranks without gaps, one master, one port", async () => {
    const { jobId } = await world.orbweaver.submit({
      name: "places",
      gang: { gpus: 10 },
      run: {
        command: [
          "sh",
          "-c",
          'echo "place $RANK/$WORLD_SIZE node $NODE_RANK local $LOCAL_RANK at $MASTER_ADDR:$MASTER_PORT on $ORBWEAVER_HOST"',
        ],
      },
    });
    const result = (await world.temporal.workflow.getHandle(jobId).result()) as JobResult;
    expect(result.hosts).toEqual(["alpha/a1", "alpha/a2", "alpha/a3"]);
    const lines = await Promise.all(
      Array.from({ length: 10 }, async (_, rank) =>
        (await collect(world.orbweaver.job(jobId).logs({ rank }))).trim(),
      ),
    );
    const places = lines.map((line) =>
      /place (\d+)\/10 node (\d) local (\d) at (\S+) on (\S+)$/.exec(line)?.slice(1),
    );
    expect(places.map((place) => Number(place?.[0]))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(places.map((place) => `${place?.[1]}.${place?.[2]}`)).toEqual([
      "0.0",
      "0.1",
      "0.2",
      "0.3",
      "1.0",
      "1.1",
      "1.2",
      "1.3",
      "2.0",
      "2.1",
    ]);
    expect(new Set(places.map((place) => place?.[3])).size).toBe(1);
  });

  it("starts one process a host when the job launches per host, in torchrun's words", async () => {
    const { jobId } = await world.orbweaver.submit({
      name: "per-host",
      gang: { gpus: 6 },
      run: {
        launch: "per-host",
        command: [
          "sh",
          "-c",
          'echo "node $PET_NODE_RANK of $PET_NNODES starts $PET_NPROC_PER_NODE on $CUDA_VISIBLE_DEVICES"',
        ],
      },
    });
    await world.temporal.workflow.getHandle(jobId).result();
    const lines = await Promise.all(
      [0, 1].map((rank) => collect(world.orbweaver.job(jobId).logs({ rank }))),
    );
    expect(lines).toEqual(["node 0 of 2 starts 4 on 0,1,2,3\n", "node 1 of 2 starts 2 on 0,1\n"]);
    await expect(collect(world.orbweaver.job(jobId).logs({ rank: 2 }))).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
  });

  it("stops all ranks when one fails, and reports the one that failed first", async () => {
    const { jobId } = await world.orbweaver.submit({
      name: "one-fails",
      gang: { gpus: 8 },
      run: {
        command: ["sh", "-c", 'if [ "$RANK" = 5 ]; then sleep 0.5; exit 9; fi; sleep 60'],
        grace: "1s",
      },
    });
    await expect(world.temporal.workflow.getHandle(jobId).result()).rejects.toMatchObject({
      cause: { type: "PROCESS_EXITED", details: [{ rank: 5, exitCode: 9, host: "alpha/a2" }] },
    });
    await world.until("the lease is released", (ledger) => ledger.leases.size === 0);
  });

  it("starts nowhere when one host refuses, names that host, and goes to others", async () => {
    const refuse = path.join(world.stateDir, world.fleet, "hosts/alpha/a2/refuse");
    await writeFile(refuse, "the fan is broken");
    const { jobId } = await world.orbweaver.submit({
      name: "refused",
      gang: { gpus: 8 },
      run: {
        command: [
          "sh",
          "-c",
          'echo "$ORBWEAVER_HOST" >> "$ORBWEAVER_CHECKPOINT_DIR/hosts"; sleep 0.2',
        ],
        grace: "1s",
      },
    });
    const result = (await world.temporal.workflow.getHandle(jobId).result()) as JobResult;
    await rm(refuse);
    expect(result).toMatchObject({ gpus: 8, hosts: ["alpha/a1", "alpha/a3"], attempts: 2 });
    const { attempts } = await world.orbweaver.job(jobId).view();
    expect(attempts[0]).toMatchObject({
      end: "failed",
      cause: {
        code: "HOST_REFUSED",
        host: "alpha/a2",
        message: expect.stringContaining("the fan is broken") as string,
      },
    });
    expect(attempts[0]?.startedAtMs).toBeUndefined();
  });
});

async function collect(chunks: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const chunk of chunks) text += chunk;
  return text;
}
