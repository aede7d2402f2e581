/** @file The page of the console: reads the stream, and shows one view of it at a time. */

import { h, options, render, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { connect } from "./connection.ts";
import { MapView } from "./map/map-view.ts";
import { usePast } from "./past-feed.ts";
import { usePlace, type View } from "./place.ts";
import { createStore, type Store } from "./store.ts";
import { timeText } from "./text.ts";
import { JobView } from "./views/job.ts";
import { showControls } from "./visible.ts";
import { QueueView } from "./views/queue.ts";
import { TimeBar } from "./views/time-bar.ts";
import { DecisionsView } from "./views/decisions.ts";
import { HostView } from "./views/host.ts";
import { HostsView } from "./views/hosts.ts";
import { TenantsView } from "./views/tenants.ts";
import { WhatIfView } from "./views/what-if.ts";
import type { ViewProps } from "./views/view-props.ts";

const TABS: readonly (readonly [view: View, title: string])[] = [
  ["map", "Map"],
  ["queue", "Queue"],
  ["tenants", "Tenants"],
  ["hosts", "Hosts"],
  ["decisions", "Decisions"],
  ["whatif", "What if"],
];

function Page({ store }: { readonly store: Store }): ComponentChildren {
  const [place, go] = usePlace();
  const [, setRevision] = useState(0);
  useEffect(() => {
    let isAsked = false;
    // What came between the first drawing and this subscription.
    setRevision(store.revision());
    return store.onChange(() => {
      if (isAsked) return;
      isAsked = true;
      // Many messages, one frame.
      requestAnimationFrame(() => {
        isAsked = false;
        setRevision(store.revision());
      });
    });
  }, []);
  const facts = store.facts();
  const { fleet } = facts;
  const at = place.get("at");
  const { shown, trouble } = usePast(at);
  useEffect(() => {
    document.title = fleet === "" ? "Orbweaver" : `${fleet} · Orbweaver`;
  }, [fleet]);
  return h(
    "div",
    { class: "page" },
    h(Head, { store, place, go }),
    h(TimeBar, { at, facts, answer: shown?.answer, trouble, nowMs: Date.now(), go }),
    h(
      "main",
      null,
      store.tables.hosts.size === 0
        ? h("p", { class: "quiet wide" }, "Reading the fleet's history…")
        : h(ViewOf, { store: shown?.store ?? store, place, go }),
    ),
  );
}

function ViewOf({ store, place, go }: ViewProps): ComponentChildren {
  switch (place.view) {
    case "map":
      return h(MapView, { store, place, go });
    case "queue":
      return h(QueueView, { store, place, go });
    case "tenants":
      return h(TenantsView, { store });
    case "hosts":
      return h(HostsView, { store, go });
    case "decisions":
      return h(DecisionsView, { store });
    case "whatif":
      return h(WhatIfView, { store });
    case "host":
      return h(HostView, { store, host: place.get("host"), go });
    case "job":
      return h(JobView, { store, job: place.get("job"), go });
  }
}

function Head({ store, place, go }: ViewProps): ComponentChildren {
  const { fleet, atMs, trouble } = store.facts();
  const { tables } = store;
  const tabs = useRef<HTMLElement>(null);
  const isAnyWaiting = tables.requests.size > 0;
  // A narrow window shows only some of the tabs; the badge makes them wider.
  useEffect(() => {
    const chosen = tabs.current?.querySelector("[aria-current=page]");
    chosen?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [place.view, isAnyWaiting]);
  return h(
    "header",
    null,
    h("h1", null, fleet === "" ? "Orbweaver" : fleet),
    h(
      "nav",
      { ref: tabs, "aria-label": "Views" },
      TABS.map(([view, title]) =>
        h(
          "button",
          {
            key: view,
            "aria-current": view === place.view ? "page" : undefined,
            onClick: () => go({ view: view === "map" ? "" : view }),
          },
          title,
          view === "queue" &&
            isAnyWaiting && [
              " ",
              h(
                "span",
                { key: "badge", class: "badge" },
                tables.requests.size.toLocaleString("en"),
              ),
            ],
        ),
      ),
    ),
    h(
      "p",
      { class: "live", role: "status" },
      !store.isConnected()
        ? h("span", { class: "bad" }, "not connected; trying again")
        : trouble !== undefined
          ? h(
              "span",
              { class: "bad", title: trouble },
              "Temporal does not answer; the last known state",
            )
          : [
              h("span", { key: "dot", class: "live-dot", "aria-hidden": true }),
              `following · last event ${timeText(atMs)}`,
            ],
    ),
  );
}

const store = createStore();
const root = document.getElementById("page");
if (root !== null) {
  root.textContent = "";
  options.vnode = (node: { readonly type: unknown; props: unknown }) => showControls(node);
  render(h(Page, { store }), root);
}
void connect(store);
