/**
 * @file Puts programs into one CommonJS file each, with what V8 has compiled beside it: the shim, the command line, and the thread of workflows.
 *
 * A process that loads hundreds of modules spends a second of processor time on them before it begins; from one file with its compiled code it takes a tenth.
 * `light.cjs` has the verbs that only ask the server, `serve.cjs` the one that serves a model, `whole.cjs` all verbs but the benches, workers and agents
 * included; `cli/light-verbs.ts` says which is taken.
 */

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
/** Where webpack finds them: the folder may be a link. */
const PACKAGES = realpathSync(path.join(ROOT, "node_modules"));
/** The bundler of the workflows, where its owner has it. */
const near = createRequire(path.join(PACKAGES, "@temporalio/worker/lib/index.js"));
const CLI = path.join(ROOT, "dist/cli");
const WORKERS = path.join(ROOT, "dist/workers");
const SERVERLESS = ["--address", "127.0.0.1:1", "--isolated"];

const OWN_PLACES = path.join(ROOT, "tools/own-places.cjs");
/** The loaders, which the build's stamp counts as sources. */
export const LOADERS = [
  ...["slim-messages", "lazy-types"].map((name) => path.join(ROOT, `tools/${name}.cjs`)),
  OWN_PLACES,
];

/** Packages with code that is not of V8. */
const NATIVE = /^(onnxruntime-node|highs|libsql)$/;
const CLIENT_ROOMS = ["client", "cli", "console", "workers", "access", "protocol"];
/** The messages between Temporal's worker and its native part. */
const CORE = "coresdk";

export async function bundlePrograms() {
  const OF_CLIENTS = {
    isCalled: calledBy(CLIENT_ROOMS, ["client/lib/workflow-client.js", "client/lib/connection.js"]),
  };
  const { LIGHT_VERBS, SERVING_VERB } = await import(
    pathToFileURL(path.join(CLI, "light-verbs.js")).href
  );
  await bundleShim();
  await bundleCli("light.cjs", {
    entry: "program.js",
    verbs: [...LIGHT_VERBS.values()],
    packages: /^(@temporalio\/worker|onnxruntime-node|highs|libsql)$/,
    heavy:
      /^\.\.\/(models|solvers)\/|^\.\.\/workers\/recorded-fleet\.js$|^history\/|^command\/what-if\.js$/,
    messages: OF_CLIENTS,
    runs: [["list", ...SERVERLESS]],
  });
  await bundleCli("serve.cjs", {
    entry: "program.js",
    verbs: [SERVING_VERB],
    // Only an error that ends the service asks whether it is one of Temporal's client.
    packages: /^(@temporalio\/|onnxruntime-node$)/,
    heavy: /^serving\/run-replicas\.js$|^command\/session\.js$|^verbs\/service\/completion\.js$/,
    messages: OF_CLIENTS,
    runs: [["serve", "--model", "none.onnx"]],
  });
  await bundleCli("whole.cjs", {
    entry: "whole.js",
    packages: NATIVE,
    heavy: /^verbs\/science\/bench\.js$/,
    messages: {
      isCalled: calledBy([...CLIENT_ROOMS, "activities", "api"], ["client", "worker"]),
      whole: [CORE],
    },
    runs: ["fleet", "jobs", "agent"].map((role) => [
      ...["worker", "--role", role, ...SERVERLESS],
      ...(role === "agent" ? ["--cluster", "none"] : []),
    ]),
  });
  const thread = "@temporalio/worker/lib/workflow/workflow-worker-thread.js";
  const file = path.join(WORKERS, "workflow-thread.cjs");
  await bundle(file, {
    entry: path.join(PACKAGES, thread),
    messages: { isCalled: () => false, whole: [CORE] },
    outside: () => undefined,
  });
  keepCompiled(file, THREAD_RUN, { isThread: true });
  for (const name of ["decide-thread", "start-estimator-thread"])
    await bundle(path.join(ROOT, `dist/activities/${name}.cjs`), {
      entry: path.join(ROOT, `dist/activities/${name}.js`),
      messages: OF_CLIENTS,
      outside: (request) => (NATIVE.test(request) ? request : undefined),
    });
  createRequire(import.meta.url)(OWN_PLACES).checkMet();
}

/** The shim as one CommonJS file: every launch starts one, and loading a dozen modules costs a third of that. */
async function bundleShim() {
  await run({
    mode: "production",
    target: "node20",
    entry: path.join(WORKERS, "shim.js"),
    output: { path: WORKERS, filename: "shim.cjs" },
    // Its stack traces go to a log that people read.
    optimization: { minimize: false },
  });
}

async function run(configuration) {
  const compiler = near("webpack")(configuration);
  const stats = await promisify(compiler.run.bind(compiler))();
  await promisify(compiler.close.bind(compiler))();
  if (stats.hasErrors()) throw new Error(stats.toString({ all: false, errors: true }));
}

/**
 * The command line with some verbs, without `verbs` with all, as a file of `dist/cli`. Outside stay the `heavy` files of our own, and `packages`: those with native
 * parts, and what is hardly needed. `runs`: words that need no server, after which the compiled code is kept.
 */
async function bundleCli(filename, { entry, verbs, packages, heavy, messages, runs }) {
  const held = verbs && new Set(verbs.map((file) => `./verbs/${file}.js`));
  const file = path.join(CLI, filename);
  await bundle(file, {
    entry: path.join(CLI, entry),
    messages,
    outside: (request, context) => outsideOfBundle(request, context, { held, packages, heavy }),
  });
  keepCompiled(file, cliRun(runs));
}

/** One file of a program. `messages`: the types of Temporal's messages that it has, for the loader. `outside`: how it imports what it does not hold. */
async function bundle(file, { entry, messages, outside }) {
  // V8 looks at the length of a text alone, and would run what was compiled of another one.
  rmSync(`${file}.code`, { force: true });
  const folder = path.dirname(file);
  const Minimizer = createRequire(near.resolve("webpack"))("minimizer-webpack-plugin");
  const { NormalModuleReplacementPlugin, DefinePlugin } = near("webpack");
  const [slim, lazy, places] = LOADERS;
  await run({
    mode: "production",
    target: "node20",
    context: ROOT,
    entry,
    output: {
      ...{ path: folder, filename: path.basename(file), library: { type: "commonjs2" } },
      // Compiled code of an earlier time cannot import.
      importFunctionName: 'require("./import.cjs").load',
    },
    // Half of the text is comments and indentation, which every start would read. Stack traces name functions and modules, and the text is ASCII: a character
    // beyond it would double the memory of the whole and the time to read it.
    optimization: {
      moduleIds: "named",
      minimizer: [
        new Minimizer({
          extractComments: false,
          terserOptions: {
            mangle: false,
            compress: false,
            format: { ascii_only: true, semicolons: false, comments: /@license|@preserve|^!/ },
          },
        }),
      ],
    },
    module: {
      parser: {
        javascript: {
          dynamicImportMode: "eager",
          createRequire: false,
          url: false,
          unknownContextCritical: false,
          exprContextCritical: false,
        },
      },
      rules: [
        // Our modules do nothing by being loaded, so an index loads only what is used of it.
        { include: path.join(ROOT, "dist"), sideEffects: false },
        {
          test: /@temporalio[\\/]proto[\\/]protos[\\/]json-module\.js$/,
          loader: slim,
          options: messages,
        },
        { include: path.join(PACKAGES, "protobufjs/src/type.js"), loader: lazy },
        { loader: places },
      ],
    },
    externals: [
      ({ request, context }, done) => {
        const found = outside(request, context);
        // Packages are required, which takes less.
        return found === undefined
          ? done()
          : done(null, `${/^[.]/.test(found) ? "import" : "commonjs"} ${found}`);
      },
    ],
    plugins: [
      // The finished bundle of the workflows is beside these files.
      new NormalModuleReplacementPlugin(
        /^\.{1,2}(\/workflow)?\/bundler$/,
        path.join(ROOT, "tools/no-bundler.cjs"),
      ),
      new DefinePlugin({
        // Of the module's own file, beside which it may look for others.
        "import.meta.url": DefinePlugin.runtimeValue(({ module }) => {
          const own = JSON.stringify(path.relative(folder, module.resource));
          return `require('node:url').pathToFileURL(require('node:path').join(__dirname, ${own})).href`;
        }),
      }),
    ],
    node: { __filename: false, __dirname: false },
    performance: { hints: false },
  });
  if (readFileSync(file).some((byte) => byte > 0x7f))
    throw new Error(`${file} is not ASCII alone, as workers/bundled.ts takes it to be`);
}

/** Which methods of Temporal's services a program may call: those that these rooms, or these files and folders of Temporal's packages, name. */
function calledBy(rooms, parts) {
  const sources = rooms
    .flatMap((room) => sourcesUnder(path.join(ROOT, room)))
    .concat(
      parts.flatMap((part) => {
        const place = path.join(PACKAGES, "@temporalio", part);
        return part.endsWith(".js") ? [place] : sourcesUnder(path.join(place, "lib"), /\.js$/);
      }),
    );
  const text = sources.map((file) => readFileSync(file, "utf8")).join("\n");
  const named = new Set([...text.matchAll(/\.\s*(\w+)/g)].map(([, name]) => name));
  return (method) => named.has(method);
}

/** How a bundle in `dist/cli` imports what it does not hold; undefined for what it holds. */
function outsideOfBundle(request, context, { held, packages, heavy }) {
  if (packages.test(request)) return request;
  if (!request.startsWith(".") || context.includes("node_modules")) return undefined;
  const file = path.relative(CLI, path.resolve(context, request)).split(path.sep).join("/");
  const isHeavyVerb =
    held !== undefined && context === CLI && file.startsWith("verbs/") && !held.has(`./${file}`);
  if (!heavy.test(file) && !isHeavyVerb) return undefined;
  return file.startsWith("../") ? file : `./${file}`;
}

/** Runs of the command line, one after the other, that print nothing. */
const cliRun = (runs) => `
  const quiet = { write: () => true };
  const io = { stdout: quiet, stderr: quiet, env: {}, cwd: "/", nowMs: () => 0, readInput: async () => "", interrupted: new AbortController().signal };
  for (const words of ${JSON.stringify(runs)}) await load().runCli(words, { io });
  keep();`;

/** The thread is told of the workflows, and its code is kept before it answers. */
const THREAD_RUN = `
  const { parentPort } = require("node:worker_threads");
  parentPort.postMessage = () => keep();
  load();
  const code = "globalThis.__webpack_module_cache__; globalThis.__TEMPORAL__ = {}";
  const workflowBundle = { code, filename: "/none.js", sourceMap: { version: 3, sources: [], names: [], mappings: "" } };
  const input = { type: "init", workflowBundle, reuseV8Context: true, isolateExecutionTimeoutMs: 1000, registeredActivityNames: new Set() };
  parentPort.emit("message", { requestId: 0n, input });`;

/** What V8 has compiled once `script` has called `load` and `keep`, in a thread where the program is one; see `workers/bundled.ts`. */
function keepCompiled(file, script, { isThread = false } = {}) {
  const text = `
    const vm = require("node:vm"), { readFileSync, renameSync, writeFileSync } = require("node:fs"), { wrap, createRequire } = require("node:module");
    const file = ${JSON.stringify(file)}, folder = ${JSON.stringify(path.dirname(file))};
    const importModuleDynamically = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
    const compiled = new vm.Script(wrap(readFileSync(file, "latin1")), { filename: file, importModuleDynamically });
    const loaded = { exports: {} };
    const load = () => {
      compiled.runInThisContext().call(loaded.exports, loaded.exports, createRequire(file), loaded, file, folder);
      return loaded.exports;
    };
    const keep = () => {
      writeFileSync(file + ".new", compiled.createCachedData());
      renameSync(file + ".new", file + ".code");
      process.exit(0);
    };
    (async () => {${script}})();`;
  const thread = `new (require("node:worker_threads").Worker)(${JSON.stringify(text)}, { eval: true }).on("exit", (code) => process.exit(code))`;
  // A run may make keys and look at settings: neither those nor the home of whoever builds.
  const home = mkdtempSync(path.join(tmpdir(), "orbweaver-build-"));
  const kept = spawnSync(process.execPath, ["-e", isThread ? thread : text], {
    env: { PATH: process.env.PATH, HOME: home },
    stdio: ["ignore", "ignore", "inherit"],
  });
  rmSync(home, { recursive: true, force: true });
  if (kept.status !== 0) throw new Error(`${file} does not load`);
}

/** Sources, and the files beside them that go into the build. */
export function sourcesUnder(dir, kind = /\.(c?ts|html|css|svg)$/) {
  if (!existsSync(dir)) return [];
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(dir, entry.name);
    if (entry.isDirectory()) return sourcesUnder(file, kind);
    return kind.test(entry.name) ? [file] : [];
  });
}
