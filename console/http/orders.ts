/** @file Orders that a reader gives on the page: what `orbweaver cancel`, `hold`, `drain` and the like do, by the same client. */

import { z } from "zod";
import type { FleetClient } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { parsedJson } from "../../lib/parsed-json.ts";
import { HOST_ORDERS, JOB_ORDERS, type Order } from "../../page/wire.ts";
import { json, plain, type Answer, type Post } from "./server.ts";

const NAME = z.string().min(1).max(300);
const ORDER: z.ZodType<Order> = z.union([
  z.strictObject({ order: z.enum(JOB_ORDERS), job: NAME }),
  z.strictObject({
    order: z.enum(HOST_ORDERS),
    host: NAME,
    reason: z.string().max(1_000).exactOptional(),
  }),
]);
const MOST = 4_096;

/** `actor`: in whose name; found anew for each order, because a submit service may come and go. */
export const ordersBy = (actor: () => FleetClient): Post => {
  return { most: MOST, answer: (body) => ordered(actor, body) };
};

async function ordered(actor: () => FleetClient, body: string): Promise<Answer> {
  const parsed = ORDER.safeParse(parsedJson(body));
  if (!parsed.success) return plain(400, `no order: ${z.prettifyError(parsed.error)}`);
  try {
    return json({ said: await carriedOut(actor(), parsed.data) });
  } catch (error) {
    if (error instanceof OrbweaverError) return plain(409, error.message);
    throw error;
  }
}

/** What became of it. */
async function carriedOut(client: FleetClient, order: Order): Promise<string> {
  if ("host" in order) {
    const { host, reason = "from the console" } = order;
    const hosts = await (order.order === "drain"
      ? client.drain([host], reason)
      : client.undrain([host]));
    return hosts.length === 0 ? `${host} is so already` : `${order.order}: ${hosts.join(", ")}`;
  }
  const job = client.job(order.job);
  if (order.order !== "cancel") return `${order.job}: ${await job[order.order]()}`;
  await job.cancel();
  return `${order.job}: cancelling`;
}
