/** @file Buttons that give orders: each is asked about once before it is sent, and says what became of it. */

import { h, type ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { giveOrder } from "../asked.ts";
import type { Order } from "../wire.ts";

export interface OrderButton {
  readonly name: string;
  /** What it does, asked before. */
  readonly asks: string;
  readonly order: Order;
  readonly isGrave?: true;
}

export function Orders({
  buttons,
}: {
  readonly buttons: readonly OrderButton[];
}): ComponentChildren {
  const [asked, setAsked] = useState<string>();
  const [said, setSaid] = useState<{ readonly text: string; readonly isBad: boolean }>();
  const chosen = buttons.find(({ name }) => name === asked);
  const give = ({ order }: OrderButton): void => {
    setAsked(undefined);
    setSaid({ text: "Sending…", isBad: false });
    giveOrder(order)
      .then((text) => setSaid({ text, isBad: false }))
      .catch((error: unknown) =>
        setSaid({ text: error instanceof Error ? error.message : String(error), isBad: true }),
      );
  };
  return h(
    "div",
    { class: "bar orders", role: "group", "aria-label": "Orders" },
    chosen === undefined
      ? buttons.map((button) =>
          h("button", { key: button.name, onClick: () => setAsked(button.name) }, button.name),
        )
      : [
          h("span", { key: "asks" }, chosen.asks),
          h(
            "button",
            {
              key: "yes",
              class: chosen.isGrave ? "grave" : "chosen",
              onClick: () => give(chosen),
            },
            `Yes, ${chosen.name.toLowerCase()}`,
          ),
          h("button", { key: "no", onClick: () => setAsked(undefined) }, "No"),
        ],
    h("span", { class: said?.isBad ? "bad" : "quiet", role: "status" }, said?.text ?? ""),
  );
}

/** `isWaiting`: it has no GPUs. */
export function jobOrders(job: string, isWaiting: boolean): readonly OrderButton[] {
  const cancel: OrderButton = {
    ...{ name: "Cancel", isGrave: true },
    asks: isWaiting ? `End ${job} for good?` : `End ${job} for good, with a checkpoint first?`,
    order: { order: "cancel", job },
  };
  return isWaiting
    ? [
        {
          name: "Hold",
          asks: `Take ${job} out of the queue until it is released?`,
          order: { order: "hold", job },
        },
        { name: "Release", asks: `Let ${job} ask for GPUs?`, order: { order: "release", job } },
        cancel,
      ]
    : [
        {
          name: "Requeue",
          asks: `Stop ${job} with a checkpoint and let it ask again?`,
          order: { order: "requeue", job },
        },
        {
          name: "Suspend",
          asks: `Stop ${job} with a checkpoint and hold it?`,
          order: { order: "suspend", job },
        },
        cancel,
      ];
}

export const hostOrders = (host: string, isDrained: boolean): readonly OrderButton[] =>
  isDrained
    ? [{ name: "Undrain", asks: `Grant GPUs of ${host} again?`, order: { order: "undrain", host } }]
    : [
        {
          name: "Drain",
          asks: `Grant nothing new on ${host}? Its jobs run on.`,
          order: { order: "drain", host },
        },
      ];
