// Runs before each test file. Supports ask for their clean-up when they are used: several files share one process,
// which loads a support once.
import { afterAll } from 'vitest';
import { endFile } from './end-of-file.ts';

afterAll(endFile, 120_000);
