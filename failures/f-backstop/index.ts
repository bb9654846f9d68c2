import type { Exhibit } from '../harness/exhibit.ts';
import { capInTheProcess } from './33-cap-in-the-process/exhibit.ts';
import { noGuards } from './34-no-guards/exhibit.ts';

/** The backstop: what is left when every guard of the code has failed. */
export const backstop: readonly Exhibit[] = [capInTheProcess, noGuards];
