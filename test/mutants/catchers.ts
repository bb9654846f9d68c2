import type { Catcher } from './mutant.ts';

/** Short names for the files that catch, so that a catalogue reads as a table. */
const catcherIn =
  (project: Catcher['project'], folder: string) =>
  (file: string, title: string): Catcher => ({
    project,
    file: `test/${folder}/${file}.test.ts`,
    title,
  });

export const unit = catcherIn('unit', 'unit');
export const workflow = catcherIn('workflow', 'workflow');
/** The vault's files are a project of their own in the same folder. */
export const integration = (file: string, title: string): Catcher =>
  catcherIn(file.includes('vault') ? 'vault' : 'integration', 'integration')(file, title);
export const http = catcherIn('http', 'http');
