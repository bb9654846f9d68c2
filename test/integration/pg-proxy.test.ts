import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startPostgresProxy, type PostgresProxy } from '../support/crash-pg-proxy.ts';
import { testPostgres } from '../support/postgres.ts';

let proxy: PostgresProxy;
let direct: Client;
let through: () => Promise<Client>;

async function connected(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  return client;
}

beforeAll(async () => {
  const postgres = await testPostgres();
  const { url } = await postgres.createDatabase();
  direct = await connected(url);
  await direct.query('create table notes (id text primary key)');
  proxy = await startPostgresProxy({ upstreamPort: postgres.port });
  through = () => connected(proxy.through(url));
});
afterAll(async () => {
  await direct.end();
  await proxy.close();
});

const ids = async (): Promise<string[]> =>
  (await direct.query<{ id: string }>('select id from notes order by id')).rows.map(({ id }) => id);

describe('the proxy that loses answers', () => {
  it('breaks the connection after the server has committed what it was armed for, and nothing else', async () => {
    const client = await through();
    const lost = proxy.dropNextReplyWhen('insert into notes', 'lost');
    await client.query('insert into notes values ($1)', ['kept']);
    await expect(client.query('insert into notes values ($1)', ['lost'])).rejects.toThrow(
      /terminated/,
    );
    await lost;
    expect(await ids()).toEqual(['kept', 'lost']);
    expect(proxy.stats()).toMatchObject({ commits: 2, dropped: 1 });
  });

  it('loses the answer to COMMIT of a transaction, never that of a ROLLBACK or of a refused insert', async () => {
    const client = await through();
    const lost = proxy.dropNextReplyWhen('insert into notes', 'three');
    await client.query('begin');
    await client.query('insert into notes values ($1)', ['three']);
    await client.query('rollback');
    await expect(
      client.query(`insert into notes values ($1), ('three')`, ['kept']),
    ).rejects.toMatchObject({ code: '23505' });
    await client.query('begin');
    await client.query('insert into notes values ($1)', ['three']);
    await expect(client.query('commit')).rejects.toThrow(/terminated/);
    await lost;
    expect(await ids()).toContain('three');
  });

  it('loses about the wanted share of commits at random', async () => {
    let draws = 0;
    const before = proxy.stats().dropped;
    proxy.dropRandomly({ rng: () => (draws++ % 4 === 0 ? 0 : 0.9), probability: 0.5 });
    let client = await through();
    let failures = 0;
    for (let i = 0; i < 20; i += 1) {
      try {
        await client.query('insert into notes values ($1)', [`random ${i}`]);
      } catch {
        failures += 1;
        client = await through();
      }
    }
    proxy.dropRandomly({ rng: () => 1, probability: 0 });
    await client.end();
    expect(failures).toBe(5);
    expect(proxy.stats().dropped - before).toBe(5);
    expect((await ids()).filter((id) => id.startsWith('random'))).toHaveLength(20);
  });
});
