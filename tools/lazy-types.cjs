/**
 * @file A loader of webpack: Temporal's message types are prepared one by one, as they are encoded or decoded, because a short command uses thirty of four hundred.
 *
 * protobufjs itself makes an object for each field of each type as it is loaded, settles the features of all types with the first that is used, and writes
 * five functions for each: those that encode, decode, verify and convert. Here a type's fields are made when somebody looks at them, and the first
 * two functions are written alone, where they are used; the rest is as it was. Cost: the fields and features of the type, of what it stands in, and of the
 * enums of its fields.
 */

const ENCODE = "return this.setup().encode.apply(this, arguments); // overrides this method";
const DECODE = "return this.setup().decode.apply(this, arguments); // overrides this method";
const SETUP = "Type.prototype.setup = function setup() {";
/** Of `Type.fromJSON`: from its first look at the fields to the types inside the type. */
const MEMBERS =
  /    var names = Object\.keys\(json\.fields\),\n        i = 0;\n(    for \(; [^]*?)    if \(json\.nested\)\n/g;
const BY_ID = "this._fieldsById = {};";
const GET = "Type.prototype.get = function get(name) {";

const ALONE = `
function editionOf(object, usual) {
  return object._edition || (object.parent ? editionOf(object.parent, usual) : usual);
}
function settle(object, usual) {
  if (object._featuresResolved) return;
  if (object.parent) settle(object.parent, usual);
  object._resolveFeatures(editionOf(object, usual));
}
function typesOf(type) {
  var usual = type._edition || type.root._edition;
  settle(type, usual);
  type.oneofsArray.forEach(function (oneof) { settle(oneof, usual); });
  return type.fieldsArray.map(function (field) {
    settle(field, usual);
    var of = field.resolve().resolvedType;
    if (of) settle(of, usual);
    return of;
  });
}
`;

/** `members`: the statements of protobufjs that add the fields and the oneofs of `json` to `type`. */
const ON_DEMAND = (members) => `
function has(named, name) {
  return named !== undefined && Object.prototype.hasOwnProperty.call(named, name);
}
function filled(type) {
  var json = type._json;
  if (json === undefined) return type;
  type._json = undefined;
  var names = Object.keys(json.fields), i = 0;
${members}
  return type;
}
["fields", "oneofs"].forEach(function (key) {
  Object.defineProperty(Type.prototype, key, {
    get: function () { return filled(this)["_" + key]; },
    set: function (members) { this["_" + key] = members; }
  });
});
`;
const GET_NESTED = `
  var json = this._json;
  if (json !== undefined && !has(json.fields, name) && !has(json.oneofs, name))
    return Namespace.prototype.get.call(this, name);
`;

module.exports = function lazy(source) {
  const isOnce = (part) => source.split(part).length === 2;
  const [found, more] = source.matchAll(MEMBERS);
  if (
    ![ENCODE, DECODE, SETUP, BY_ID, GET].every(isOnce) ||
    found === undefined ||
    more !== undefined
  )
    throw new Error("the types of protobufjs have another form than expected");
  const [whole, members] = found;
  const rest = whole.slice(whole.indexOf(members) + members.length);
  return (
    source
      .replace(whole, () => `    type._json = json;\n    var names, i;\n${rest}`)
      .replace(
        ENCODE,
        "var types = typesOf(this); this.encode = encoder(this)({ Writer : Writer, types : types, util : util }); return this.encode.apply(this, arguments);",
      )
      .replace(
        DECODE,
        "var types = typesOf(this); this.decode = decoder(this)({ Reader : Reader, types : types, util : util, C : this.ctor }); return this.decode.apply(this, arguments);",
      )
      // A type that is filled forgets what it has noted before.
      .replace(BY_ID, `filled(this)${BY_ID.slice("this".length)}`)
      .replace(GET, GET + GET_NESTED)
      .replace(SETUP, () => ON_DEMAND(members) + ALONE + SETUP)
  );
};
