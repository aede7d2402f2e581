/** @file What a job would do if it were submitted now: a form for the usual fields, and the job file itself to edit. Submits nothing. */

import { h, type ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { send } from "../asked.ts";
import type { Store } from "../store.ts";
import type { WhatIfAnswer } from "../wire.ts";
import { Gang } from "./job-life.ts";

interface Form {
  readonly tenant: string;
  readonly class: string;
  readonly gpus: string;
  readonly min: string;
  readonly gpuType: string;
  readonly cluster: string;
  readonly timeLimit: string;
}

const START: Form = {
  ...{ tenant: "", class: "training", gpus: "8", min: "", gpuType: "" },
  ...{ cluster: "", timeLimit: "" },
};
/** Quoted as JSON is, which YAML reads. */
const quoted = (text: string): string => JSON.stringify(text);

function fileOf({ tenant, class: named, gpus, min, gpuType, cluster, timeLimit }: Form): string {
  const limits = [
    gpuType === "" ? "" : `gpuTypes: [${quoted(gpuType)}]`,
    cluster === "" ? "" : `clusters: [${quoted(cluster)}]`,
  ].filter((text) => text !== "");
  return [
    "name: what-if",
    ...(tenant === "" ? [] : [`tenant: ${quoted(tenant)}`]),
    `class: ${named}`,
    `gang: { gpus: ${gpus}${min === "" ? "" : `, min: ${min}`} }`,
    ...(limits.length === 0 ? [] : [`constraints: { ${limits.join(", ")} }`]),
    ...(timeLimit === "" ? [] : [`timeLimit: ${quoted(timeLimit)}`]),
    'run: { command: ["true"] }',
    "",
  ].join("\n");
}

const HEADLINES: Readonly<Record<WhatIfAnswer["kind"], string>> = {
  starts: "It would start at once",
  preempts: "It would start by preemption",
  waits: "It would wait",
  never: "It would never start",
  refused: "It would be refused",
  wrong: "This is no job file",
};

export function WhatIfView({ store }: { readonly store: Store }): ComponentChildren {
  const [form, setForm] = useState(START);
  const [file, setFile] = useState(fileOf(START));
  const [answer, setAnswer] = useState<WhatIfAnswer>();
  const [trouble, setTrouble] = useState<string>();
  const [isAsking, setAsking] = useState(false);
  const change = (name: keyof Form, value: string): void => {
    const next = { ...form, [name]: value };
    setForm(next);
    setFile(fileOf(next));
  };
  const ask = (): void => {
    setAsking(true);
    setTrouble(undefined);
    send("/api/what-if", { job: file })
      .then((found) => setAnswer(found as WhatIfAnswer))
      .catch((error: unknown) => setTrouble(error instanceof Error ? error.message : String(error)))
      .finally(() => setAsking(false));
  };
  const hosts = [...store.tables.hosts.values()];
  const choices: Partial<Record<keyof Form, readonly string[]>> = {
    class: ["training", "interactive", "inference"],
    gpuType: ["", ...new Set(hosts.map(({ gpuType }) => gpuType))],
    cluster: ["", ...new Set(hosts.map(({ cluster }) => cluster))],
  };
  return h(
    "section",
    { class: "wide what-if", "aria-label": "What if" },
    h("h2", null, "What if a job were submitted now?"),
    h(
      "p",
      { class: "quiet" },
      "The console plays the fleet's own scheduling on a copy of its ledger. Nothing is submitted, and nobody is asked.",
    ),
    h(
      "div",
      { class: "form" },
      FIELDS.map(([name, title]) =>
        h(Field, { key: name, name, title, value: form[name], choices: choices[name], change }),
      ),
    ),
    h(
      "label",
      { class: "file" },
      "Job file",
      h("textarea", {
        rows: Math.max(8, file.split("\n").length),
        spellcheck: false,
        value: file,
        onInput: (event: Event) => setFile((event.target as HTMLTextAreaElement).value),
        onKeyDown: (event: KeyboardEvent) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask();
        },
      }),
    ),
    h(
      "p",
      { class: "bar" },
      h("button", { class: "chosen", disabled: isAsking, onClick: ask }, "Try it"),
      h(
        "span",
        { class: trouble === undefined ? "quiet" : "bad", role: "status" },
        trouble ?? (isAsking ? "Scheduling…" : ""),
      ),
    ),
    answer && h(Answer, { answer }),
  );
}

const FIELDS: readonly (readonly [name: keyof Form, title: string])[] = [
  ["gpus", "GPUs"],
  ["min", "At least"],
  ["class", "Class"],
  ["tenant", "Tenant"],
  ["gpuType", "GPU type"],
  ["cluster", "Cluster"],
  ["timeLimit", "Time limit"],
];

function Field({
  name,
  title,
  value,
  choices,
  change,
}: {
  readonly name: keyof Form;
  readonly title: string;
  readonly value: string;
  readonly choices: readonly string[] | undefined;
  readonly change: (name: keyof Form, value: string) => void;
}): ComponentChildren {
  const take = (event: Event): void =>
    change(name, (event.target as HTMLInputElement | HTMLSelectElement).value);
  const isNumber = name === "gpus" || name === "min";
  return h(
    "label",
    null,
    title,
    choices === undefined
      ? h("input", {
          ...(isNumber && { type: "number", min: 1 }),
          ...(name === "timeLimit" && { placeholder: "12h" }),
          value,
          onInput: take,
        })
      : h(
          "select",
          { value, onChange: take },
          choices.map((one) => h("option", { key: one, value: one }, one === "" ? "any" : one)),
        ),
  );
}

function Answer({
  answer: { name, kind, message, gpus, facts },
}: {
  readonly answer: WhatIfAnswer;
}): ComponentChildren {
  return h(
    "div",
    { class: `card answer answer-${kind}`, role: "status" },
    h("h3", null, HEADLINES[kind], name !== "" && h("span", { class: "quiet" }, ` · ${name}`)),
    h("p", { class: "said" }, message),
    gpus !== undefined && gpus.length > 0 && h(Gang, { gpus }),
    h(
      "dl",
      { class: "facts" },
      facts.flatMap(([fact, text], at) => [
        h("dt", { key: at }, fact),
        h("dd", { key: `${at}=` }, text),
      ]),
    ),
  );
}
