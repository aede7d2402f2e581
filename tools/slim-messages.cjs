/**
 * @file A loader of webpack: leaves out of Temporal's message types those that a program of ours does not speak, because each type costs time at the start.
 *
 * Kept are the methods of services that the sources call, the types that they reach, and the namespaces below. Cost: one walk over the types.
 */

const BEFORE = ".addJSON(";
/** Beside what the methods reach: well-known types, errors, payloads that are read by themselves, and enums, which the client library looks up. */
const KEPT = [
  "google.protobuf",
  "google.rpc",
  "grpc.health.v1",
  "temporal.api.common.v1",
  "temporal.api.enums.v1",
  "temporal.api.errordetails.v1",
  "temporal.api.failure.v1",
  "temporal.api.history.v1.History",
  "temporal.api.sdk.v1",
];
const SERVICES = [
  "temporal.api.workflowservice.v1.WorkflowService",
  "temporal.api.operatorservice.v1.OperatorService",
  "temporal.api.testservice.v1.TestService",
];

module.exports = function slim(source) {
  const from = source.indexOf(BEFORE) + BEFORE.length;
  const to = source.lastIndexOf("});") + 1;
  if (from < BEFORE.length || to <= from)
    throw new Error("the message types of @temporalio/proto have another form than expected");
  // A literal of an object, written by protobufjs; keys are not all quoted.
  const types = new Function(`return (${source.slice(from, to)});`)();
  const { nested: slimmed } = slimTypes({ nested: types }, this.getOptions());
  return `${source.slice(0, from)}JSON.parse(${JSON.stringify(JSON.stringify(slimmed))})${source.slice(to)}`;
};
module.exports.slimTypes = slimTypes;

/**
 * The tree of protobufjs with what is needed. `isCalled`: whether our sources call a method, by its name as the client library has it (`startWorkflowExecution`).
 * `whole`: namespaces that are kept besides.
 */
function slimTypes(types, { isCalled, whole = [] }) {
  const byName = new Map();
  index(types, "", byName);
  const needed = new Set();
  const open = [];
  const need = (name) => {
    if (name === undefined || needed.has(name)) return;
    needed.add(name);
    open.push(name);
  };
  for (const name of [...KEPT, ...whole]) {
    if (!byName.has(name)) throw new Error(`@temporalio/proto has no ${name} any more`);
    needWhole(name, byName, need);
  }
  for (const name of SERVICES) {
    const service = byName.get(name);
    if (service === undefined) throw new Error(`@temporalio/proto has no ${name} any more`);
    const called = Object.entries(service.methods).filter(([method]) =>
      isCalled(method[0].toLowerCase() + method.slice(1)),
    );
    service.methods = Object.fromEntries(called);
    need(name);
  }
  while (open.length > 0) {
    const name = open.pop();
    // A type inside another one stands in it.
    need(byName.has(outer(name)) ? outer(name) : undefined);
    for (const used of namesIn(byName.get(name))) need(resolved(used, name, byName));
  }
  return pruned(types, "", needed);
}

/** Every namespace, type, enum and service by its full name. */
function index(node, path, byName) {
  for (const [key, child] of Object.entries(node.nested ?? {})) {
    const name = path === "" ? key : `${path}.${key}`;
    byName.set(name, child);
    index(child, name, byName);
  }
}

function needWhole(name, byName, need) {
  for (const each of byName.keys()) if (each === name || each.startsWith(`${name}.`)) need(each);
}

const outer = (name) => name.slice(0, Math.max(0, name.lastIndexOf(".")));

/** As they are written: from the root, or from any namespace around. */
function namesIn({ fields = {}, methods = {} }) {
  return [
    ...Object.values(fields).map(({ type }) => type),
    ...Object.values(methods).flatMap(({ requestType, responseType }) => [
      requestType,
      responseType,
    ]),
  ];
}

/** Undefined of a type that protobuf has by itself (`string`). */
function resolved(written, from, byName) {
  const plain = written.replace(/^\./, "");
  for (let at = from; ; at = outer(at)) {
    const name = at === "" ? plain : `${at}.${plain}`;
    if (byName.has(name)) return name;
    if (at === "") return undefined;
  }
}

function pruned(node, path, needed) {
  const nested = Object.entries(node.nested ?? {}).flatMap(([key, child]) => {
    const name = path === "" ? key : `${path}.${key}`;
    const kept = pruned(child, name, needed);
    const isNamespace = !("fields" in child || "methods" in child || "values" in child);
    const isKept = needed.has(name) || (isNamespace && kept.nested !== undefined);
    return isKept ? [[key, kept]] : [];
  });
  const { nested: _all, ...own } = node;
  return nested.length === 0 ? own : { ...own, nested: Object.fromEntries(nested) };
}
