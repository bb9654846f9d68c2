// Puts the simulation's executor where Temporal's SDK would be, for the files of src alone.
import { registerHooks } from 'node:module';

const SRC = new URL('../../src/', import.meta.url).href;
const FAKES: Readonly<Record<string, string>> = {
  '@temporalio/workflow': new URL('./fake-workflow.ts', import.meta.url).href,
  '@temporalio/activity': new URL('./fake-activity.ts', import.meta.url).href,
};

/** From here on src runs against the fakes. Call before src is loaded. */
export function installFakes(): void {
  registerHooks({
    resolve(specifier, context, next) {
      const fake = FAKES[specifier];
      if (fake === undefined || context.parentURL?.startsWith(SRC) !== true) {
        return next(specifier, context);
      }
      return { url: fake, format: 'module-typescript', shortCircuit: true };
    },
  });
}
