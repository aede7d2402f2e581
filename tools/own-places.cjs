/**
 * @file A loader of webpack: files that look for others beside themselves, or take what a user names, find them from a bundle, too.
 *
 * Each is changed in the words of the table alone, and must have them exactly once, and some program must have it, so that another version of the package
 * stops the build.
 */

const folderOf = (file) =>
  `__non_webpack_require__("node:path").dirname(__non_webpack_require__.resolve(${JSON.stringify(file)}))`;

/** By the file: the words, and what stands for them. */
const PLACES = new Map([
  [
    "dist/workers/payload-codec.js",
    ["await import(", 'await __non_webpack_require__("./import.cjs").load('],
  ],
  [
    "@temporalio/core-bridge/index.js",
    ["require(nativeLibPath)", "__non_webpack_require__(nativeLibPath)"],
  ],
  [
    "@temporalio/core-bridge/common.js",
    ["path.resolve(__dirname,", `path.resolve(${folderOf("@temporalio/core-bridge")},`],
  ],
  [
    "@temporalio/common/lib/internal-non-workflow/data-converter-helpers.js",
    ["module = require(path);", "module = __non_webpack_require__(path);"],
  ],
  [
    "@temporalio/worker/lib/workflow/threaded-vm.js",
    // Bundles are in folders beside that of the workers.
    [
      "require.resolve('./workflow-worker-thread')",
      'require("node:path").join(__dirname, "../workers/workflow-thread.js")',
    ],
  ],
  [
    "source-map/lib/read-wasm.js",
    [
      'path.join(__dirname, "mappings.wasm")',
      `path.join(${folderOf("source-map")}, "lib/mappings.wasm")`,
    ],
  ],
]);

const met = new Set();

module.exports = function own(source) {
  const named = [...PLACES].find(([file]) => this.resourcePath.endsWith(`/${file}`));
  if (named === undefined) return source;
  const [file, [words, instead]] = named;
  if (source.split(words).length !== 2)
    throw new Error(`${file} has another form than expected: not once ${words}`);
  met.add(file);
  return source.replace(words, () => instead);
};

/** For the end of a build: a file that no program had may have moved. */
module.exports.checkMet = () => {
  const missed = [...PLACES.keys()].filter((file) => !met.has(file));
  if (missed.length > 0) throw new Error(`no program has ${missed.join(", ")}: has it moved?`);
};
