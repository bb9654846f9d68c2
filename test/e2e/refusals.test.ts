import { createServer } from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import { customersCsv, expectCode, testHome, type TestHome } from '../support/cli.ts';

let home: TestHome;
const NOBODY = '127.0.0.1:1';

beforeAll(async () => {
  home = await testHome();
});

interface Refusal {
  readonly what: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly code: number;
  readonly says: RegExp;
}

const RUN = ['run', '2026-02', '--wait'];
const REFUSALS: readonly Refusal[] = [
  { what: 'month 13', args: ['run', '2026-13'], code: 2, says: /from 2026-01 to 2026-12/ },
  { what: 'a month of one digit', args: ['run', '2026-2'], code: 2, says: /two digits, 2026-02/ },
  { what: 'a space', args: ['run', ' 2026-02'], code: 2, says: /spaces around "2026-02"/ },
  {
    what: 'no reason',
    args: ['rerun', '2026-02', 'c1'],
    code: 2,
    says: /required option '--reason/,
  },
  { what: 'no file', args: ['import', 'customers', 'no.csv'], code: 2, says: /no file no\.csv/ },
  { what: 'a folder as file', args: ['import', 'customers', '/'], code: 2, says: /is a folder/ },
  {
    what: 'a zone',
    args: ['schedule', 'ensure', '--zone', 'X/Y'],
    code: 2,
    says: /Europe\/Berlin/,
  },
  {
    what: 'setup without services',
    args: ['setup'],
    code: 2,
    says: /set DATABASE_URL, and TEMPORAL/,
  },
  {
    what: 'a publishable key',
    args: RUN,
    env: { STRIPE_API_KEY: 'pk_test_1' },
    code: 2,
    says: /publishable key .*needs a secret or restricted key/,
  },
  {
    what: 'a live key without live mode',
    args: RUN,
    env: { STRIPE_API_KEY: 'sk_live_1' },
    code: 2,
    says: /only with CHARGEONCE_MODE=live/,
  },
  {
    what: 'a live key for another host',
    args: RUN,
    env: { STRIPE_API_KEY: 'sk_live_1', CHARGEONCE_MODE: 'live', STRIPE_API_BASE: 'http://a.test' },
    code: 2,
    says: /STRIPE_API_BASE: refused with a live key/,
  },
  {
    what: 'a worker that holds a Stripe key beside a vault',
    args: ['worker'],
    env: {
      STRIPE_API_KEY: 'sk_test_topsecretword',
      VAULT_URL: `http://${NOBODY}`,
      VAULT_ADMIN_URL: `http://${NOBODY}`,
      VAULT_RUN_TOKEN: `vrt_topsecretword${'0'.repeat(32)}`,
    },
    code: 2,
    says: /STRIPE_API_KEY: refused together with VAULT_URL\. Only the vault holds the Stripe key/,
  },
  {
    what: 'a Postgres that is not there',
    args: ['status', '2026-02'],
    env: { DATABASE_URL: `postgres://u:topsecretword@${NOBODY}/x` },
    code: 5,
    says: /PostgreSQL at 127\.0\.0\.1:1 cannot be used: .*ECONNREFUSED.*Check DATABASE_URL/,
  },
];

describe('bad input and missing services', () => {
  it.each(REFUSALS)('$what is refused with what to do', async ({ args, env, code, says }) => {
    const refused = await home.run(args, env === undefined ? {} : { env });
    expectCode(refused, code);
    expect(refused.stderr).toMatch(says);
    expect(refused.output).not.toMatch(/\n\s+at |topsecretword|sk_live_1|sk_test_1/);
    expect(home.processes()).toEqual([]);
  });

  it('a bad file is refused line by line and imports nobody', async () => {
    const bad = customersCsv([{ id: 'c1' }, { id: 'c2', amount: '1.001' }, { id: 'c1' }]);
    const refused = await home.run(['import', 'customers', '-', '--json'], { input: bad });
    expectCode(refused, 2);
    expect(refused.json()).toMatchObject({
      ok: false,
      problemCount: 2,
      problems: [
        { line: 3, column: 'amount' },
        { line: 4, column: 'customer_id' },
      ],
    });
    const empty = await home.run(['import', 'customers', '-', '--json'], {
      input: customersCsv([{ id: 'c9' }]),
    });
    expect(empty.json()).toMatchObject({ inserted: 1, updated: 0, unchanged: 0 });
  });

  it('a period that nobody planned has no status, and its audit has no verdict', async () => {
    const status = await home.run(['status', '2031-01', '--json']);
    expectCode(status, 1);
    expect(status.json()['error']).toContain('"chargeonce run 2031-01 --wait" starts it');
    const audit = await home.run(['audit', '2031-01', '--json']);
    expectCode(audit, 4);
    expect(audit.json()['verdict']).toBe('unknown');
  });

  it('a demanded port that is taken is named with its holder, and nothing stays up', async () => {
    const holder = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => holder.once('listening', resolve));
    const address = holder.address();
    if (address === null || typeof address === 'string') throw new Error('no TCP port was opened');
    const { port } = address;
    try {
      for (const name of ['SIMULATOR_PORT', 'TEMPORAL_UI_PORT']) {
        const refused = await home.run(['up'], { env: { [name]: String(port) } });
        expectCode(refused, 5);
        expect(refused.stderr).toContain(`port ${port}, demanded for`);
        expect(refused.stderr).toContain(`held by process ${process.pid}`);
        expect(home.processes()).toEqual([]);
      }
    } finally {
      holder.close();
    }
  });

  it('a Temporal or a Stripe that is not there ends a run before anything is sent', async () => {
    const csv = customersCsv([{ id: 'c1' }]);
    expectCode(await home.run(['import', 'customers', '-'], { input: csv }), 0);
    const noTemporal = await home.run(['run', '2026-02', '--wait', '--json'], {
      env: { TEMPORAL_ADDRESS: NOBODY },
    });
    expectCode(noTemporal, 5);
    expect(noTemporal.json()['error']).toMatch(/Temporal at 127\.0\.0\.1:1 cannot be reached/);
    const noStripe = await home.run(['run', '2026-02', '--wait', '--json'], {
      env: { STRIPE_API_KEY: 'sk_test_1', STRIPE_API_BASE: `http://${NOBODY}` },
    });
    expectCode(noStripe, 5);
    expect(noStripe.json()['error']).toMatch(/Stripe at 127\.0\.0\.1:1 cannot be reached/);
    expectCode(await home.run(['status', '2026-02']), 1);
  });
});
