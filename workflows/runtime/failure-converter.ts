/**
 * @file How workflows write failures: plainly, or with message and stack trace as a payload that codecs can encrypt.
 *
 * Workflow code knows nothing of a worker's setting, so a worker that encrypts replaces the word below in the bundle's text
 * (`workers/workflow-bundle.ts`). How a failure is written is no command: histories replay either way. Both forms are
 * always read. Bundled with the workflows.
 */

import { DefaultFailureConverter } from "@temporalio/common";

const FORM: string = "orbweaver-failures-plain";

export const failureConverter = new DefaultFailureConverter({
  encodeCommonAttributes: FORM.endsWith("encoded"),
});
