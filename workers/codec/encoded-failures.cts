/**
 * @file How activities write failures when payloads are encrypted: message and stack trace as a payload, for the codecs.
 *
 * A CommonJS module without import or export syntax, because the SDK loads converters with `require`, and Node 20.3 cannot
 * require an ES module.
 */

const common = require("@temporalio/common") as typeof import("@temporalio/common");

exports.failureConverter = new common.DefaultFailureConverter({ encodeCommonAttributes: true });
