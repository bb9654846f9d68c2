import type { Exhibit } from '../harness/exhibit.ts';
import { sdkAutomaticKey } from './06-sdk-automatic-key/exhibit.ts';

/** Keys that are made inside the client's machinery: an interceptor, a hook, a retry. */
export const clientMachinery: readonly Exhibit[] = [sdkAutomaticKey];
