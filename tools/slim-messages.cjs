/**
 * @file A loader of webpack: leaves out of Temporal's message types those that no client of ours speaks, because each type costs time at the start.
 */

/** Paths of namespaces: the core's own protocol, the administration of Temporal Cloud, annotations of nexus. */
const UNUSED = [["coresdk"], ["nexusannotations"], ["temporal", "api", "cloud"]];
const BEFORE = ".addJSON(";

module.exports = function slim(source) {
  const from = source.indexOf(BEFORE) + BEFORE.length;
  const to = source.lastIndexOf("});") + 1;
  if (from < BEFORE.length || to <= from)
    throw new Error("the message types of @temporalio/proto have another form than expected");
  // A literal of an object, written by protobufjs; keys are not all quoted.
  const types = new Function(`return (${source.slice(from, to)});`)();
  for (const path of UNUSED) {
    const last = path.at(-1);
    const holder = path.slice(0, -1).reduce((at, name) => at[name].nested, types);
    if (!(last in holder)) throw new Error(`@temporalio/proto has no ${path.join(".")} any more`);
    delete holder[last];
  }
  return `${source.slice(0, from)}JSON.parse(${JSON.stringify(JSON.stringify(types))})${source.slice(to)}`;
};
