import type { Position } from './finding.ts';

/** Tells the line and column of a place in a text. */
export class Lines {
  readonly #starts: number[] = [0];
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1))
      this.#starts.push(at + 1);
  }

  position(offset: number): Position {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.#starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (this.#starts[low] ?? 0) + 1 };
  }

  /** A line's text, from 1. */
  line(number: number): string {
    const start = this.#starts[number - 1] ?? 0;
    const end = this.#starts[number] ?? this.#text.length + 1;
    return this.#text.slice(start, end - 1).replace(/\r$/, '');
  }
}
