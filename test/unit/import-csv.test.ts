import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { parseHeader } from '../../src/import/csv-header.ts';
import { openCsv, UnreadableCsv } from '../../src/import/csv-records.ts';
import type { CsvRecord } from '../../src/import/csv-records.ts';

function inChunks(bytes: Buffer, size: number): Readable {
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
  return Readable.from(chunks);
}

async function read(text: string | Buffer, chunkSize = 7): Promise<CsvRecord[]> {
  const source = await openCsv(inChunks(Buffer.from(text), chunkSize));
  return Array.fromAsync(source.records());
}

async function refusal(text: string | Buffer): Promise<[number, string]> {
  const error: unknown = await read(text).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof UnreadableCsv)) throw new Error('the file was read', { cause: error });
  return [error.line, error.message];
}

describe('the records of a file', () => {
  const mixed =
    '\uFEFFa,b\r\n1,2\r\n\r\n3,"x\r\ny"\r\n\n4,"p\nq\nr"\n5,"say ""yes"", please"\n6,tail';

  test.each([1, 2, 3, 7, 1000])(
    'carry the line they begin on, over BOM, CRLF, blank lines and quoted line breaks, read %i bytes at a time',
    async (chunkSize) => {
      expect(await read(mixed, chunkSize)).toEqual([
        { line: 1, fields: ['a', 'b'] },
        { line: 2, fields: ['1', '2'] },
        { line: 4, fields: ['3', 'x\r\ny'] },
        { line: 7, fields: ['4', 'p\nq\nr'] },
        { line: 10, fields: ['5', 'say "yes", please'] },
        { line: 11, fields: ['6', 'tail'] },
      ]);
    },
  );

  test('keep letters whole that are split between two chunks', async () => {
    expect(await read('a\nŻółć', 1)).toEqual([
      { line: 1, fields: ['a'] },
      { line: 2, fields: ['Żółć'] },
    ]);
  });

  test('are none in an empty file or one with only a BOM', async () => {
    expect(await read('')).toEqual([]);
    expect(await read('\uFEFF')).toEqual([]);
  });

  test('come with the SHA-256 of all bytes, BOM included', async () => {
    const source = await openCsv(inChunks(Buffer.from(mixed), 5));
    await Array.fromAsync(source.records());
    expect(source.sha256()).toBe(createHash('sha256').update(mixed).digest('hex'));
  });

  test('are those of a file on disk when a path is given', async () => {
    const source = await openCsv(new URL('../../examples/customers.csv', import.meta.url).pathname);
    const records = await Array.fromAsync(source.records());
    expect(records).toHaveLength(501);
    expect(records.at(-1)?.line).toBe(501);
  });
});

describe('a file that cannot be read', () => {
  test('because a quote is never closed is refused at the line of the quote', async () => {
    expect(await refusal('a,b\n1,2\n3,"4\n5,6\n')).toEqual([
      3,
      'a quote opened here is never closed',
    ]);
  });

  test('because an open quote swallows 64 KiB is refused without reading on', async () => {
    let sent = 0;
    async function* endless() {
      yield Buffer.from('a,b\n1,"2\n');
      for (;;) {
        sent += 1024;
        yield Buffer.alloc(1024, 'x');
      }
    }
    const source = await openCsv(Readable.from(endless()));
    await expect(Array.fromAsync(source.records())).rejects.toMatchObject({
      line: 2,
      message: 'a quote opened here is never closed',
    });
    expect(sent).toBeLessThan(1_000_000);
  });

  test('because of a quote inside a field is refused at its line', async () => {
    const [line, message] = await refusal('a,b\n1,2"x\n');
    expect(line).toBe(2);
    expect(message).toContain('a quote stands in the middle of a field');
  });

  test('tells of every line before the broken one, however the bytes arrive', async () => {
    const lines = Array.from({ length: 40 }, (_, index) => `${index},x`);
    const source = await openCsv(
      inChunks(Buffer.from([...lines, '1,2"x', '3,4'].join('\n')), 9999),
    );
    const seen: number[] = [];
    const reading = (async () => {
      for await (const { line } of source.records()) seen.push(line);
    })();
    await expect(reading).rejects.toMatchObject({ line: 41 });
    expect(seen).toEqual(lines.map((_, index) => index + 1));
  });

  test.each([
    ['little', Buffer.from('\uFEFFa,b\n', 'utf16le')],
    ['big', Buffer.from('\uFEFFa,b\n', 'utf16le').swap16()],
  ])('because it is %s-endian UTF-16 is refused', async (_, bytes) => {
    expect(await refusal(bytes)).toEqual([1, 'the file is UTF-16; save it as UTF-8']);
  });

  test.each([
    ['/nowhere/at/all.csv', 'cannot read /nowhere/at/all.csv: there is no such file'],
    ['/', 'it is a folder'],
  ])('because %s is no file is refused', async (path, expected) => {
    const reading = openCsv(path).then((source) => Array.fromAsync(source.records()));
    await expect(reading).rejects.toThrow(expected);
    await expect(reading).rejects.toBeInstanceOf(UnreadableCsv);
  });
});

describe('a header', () => {
  const all = 'customer_id,stripe_customer_id,payment_method_id,amount,currency,description,active';

  function problems(line: string): string[] {
    const header = parseHeader(line.split(','), 1);
    return header.ok ? [] : header.problems.map(({ column, message }) => `${column}: ${message}`);
  }

  test('may list the columns in any order and leave out the last two', () => {
    const reordered = 'currency,amount,payment_method_id,stripe_customer_id,customer_id';
    expect(parseHeader(all.split(','), 1)).toEqual({ ok: true, columns: all.split(',') });
    expect(parseHeader(reordered.split(','), 1)).toEqual({
      ok: true,
      columns: reordered.split(','),
    });
  });

  test('is refused with the name of each unknown, repeated and missing column', () => {
    expect(problems('customer_id,customer_id,stripe_customer_id,Amount,currency')).toEqual([
      'Amount: unknown column; known are customer_id, stripe_customer_id, payment_method_id, amount, currency, description, active',
      'customer_id: the column is there twice',
      'payment_method_id: the column is missing; needed are customer_id, stripe_customer_id, payment_method_id, amount, currency',
      'amount: the column is missing; needed are customer_id, stripe_customer_id, payment_method_id, amount, currency',
    ]);
  });

  test.each([
    [';', 'semicolons'],
    ['\t', 'tabs'],
  ])('separated by %j is refused with what to do', (separator, name) => {
    expect(problems(all.replaceAll(',', separator))).toEqual([
      `: the columns are separated by ${name}; save the file with commas`,
    ]);
  });

  test('that is a line of data shows only a glimpse of it', () => {
    expect(problems('a-very-long-value-that-may-be-personal').join()).not.toContain('personal');
  });
});
