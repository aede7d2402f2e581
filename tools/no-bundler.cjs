/** @file Stands for the bundler of workflows, and for the packages it is made of, where the bundle is finished: it loads, and says what is missing when it is asked to work. */

class Missing {
  constructor() {
    throw new Error(
      "no bundler of workflows is here, the finished bundle is; run this in a clone of the repository",
    );
  }
}
const missing = () => new Missing();

module.exports = {
  ...{ Volume: Missing, Union: Missing, webpack: missing },
  ...{ WorkflowCodeBundler: Missing, bundleWorkflowCode: missing },
  defaultWorkflowInterceptorModules: [],
};
